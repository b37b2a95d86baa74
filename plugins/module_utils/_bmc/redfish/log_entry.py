# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry of a Redfish log (DMTF LogEntry), in words of no maker. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import (
    CRITICAL,
    OK,
    UNTOLD,
    WARNING,
    LogEntry,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import about_secrets, short

#: DMTF Resource, Health. What is missing, null or another word is unknown.
_SEVERITIES = {"ok": OK, "warning": WARNING, "critical": CRITICAL}
#: When it happened, before when it was written down: AMI's SEL tells the start of the BMC as the second of these.
_TIMES = ("EventTimestamp", "Created")
#: What kind of event it is. XCC has no MessageId, and the id of its words or of the event.
_CODES = ("MessageId", "OemLogEntryCode", "EventId")
#: What iLO writes of an entry that was never filled.
_NULL = "NULL"
_WORD, _MESSAGE = 200, 1000


def time_of(doc: Mapping[str, Any]) -> float | None:
    """Seconds since the epoch; None where no time is told that a clock shows which was set."""
    return next((at for at in (clock.of_iso(doc.get(name)) for name in _TIMES) if at is not None), None)


def number_of(doc: Mapping[str, Any]) -> int | None:
    """Its id as a number; None where it is none."""
    said = str(doc.get("Id") or select.last_part(select.link(doc)))
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None


def entry(doc: Mapping[str, Any]) -> LogEntry:
    """As it is told, cut to what a person reads, with secrets masked before the cut."""
    severity = _word(doc.get("Severity"))
    return LogEntry(
        id=_shown(doc.get("Id") or select.last_part(select.link(doc))),
        at=time_of(doc),
        severity=_SEVERITIES.get(severity.casefold(), UNTOLD),
        message=_message(doc),
        sensor=_sensor(doc),
        code=_code(doc),
        native={
            "at": _shown(_said(doc)),
            "severity": _shown(severity),
            "entry_code": _shown(_word(doc.get("EntryCode"))),
            "uri": _shown(select.link(doc)),
        },
    )


def _message(doc: Mapping[str, Any]) -> str:
    """iLO tells some events by their id and its arguments alone."""
    message = doc.get("Message")
    if isinstance(message, str) and message.strip():
        return short(message, _MESSAGE)
    arguments = doc.get("MessageArgs")
    told = about_secrets(arguments) if isinstance(arguments, list) else []
    return short(answers.plain(_code(doc), told), _MESSAGE) if _code(doc) else ""


def _sensor(doc: Mapping[str, Any]) -> str:
    kind, number = _word(doc.get("SensorType")) or _word(doc.get("OemSensorType")), doc.get("SensorNumber")
    if isinstance(number, int) and not isinstance(number, bool):
        return _shown(f"{kind or 'sensor'} #{number}")
    return _shown(kind or select.link(doc, "Links", "OriginOfCondition"))


def _code(doc: Mapping[str, Any]) -> str:
    said = (_word(doc.get(name)) for name in _CODES)
    return _shown(next((one for one in said if one not in ("", _NULL)), ""))


def _said(doc: Mapping[str, Any]) -> str:
    """Its time in the BMC's own words: the one that was believed, else whatever stands there."""
    said = [word for word in (_word(doc.get(name)) for name in _TIMES) if word]
    return next((word for word in said if clock.of_iso(word) is not None), next(iter(said), ""))


def _word(said: Any) -> str:
    """iDRAC 8 tells each word as a list of members; mrlhansen/idrac_exporter#26."""
    if isinstance(said, list) and said and isinstance(said[0], dict):
        said = said[0].get("Member")
    return said if isinstance(said, str) else ""


def _shown(said: Any) -> str:
    return short(said, _WORD) if isinstance(said, (str, int)) else ""
