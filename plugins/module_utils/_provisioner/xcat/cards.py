# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node of xCAT has which card and which BMC. PRIVATE to the collection.

All of them are a list as long as the site, and each new node of a batch needs to know that its own are free. So the
hosts of one run ask for the list once a minute, together. Right before a write xCAT is asked who has these very ones by
then: it answers with those that match, and with one that has to, so that an answer without it is known to be none.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import locked, own_folder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import ALONE, Cli

#: Seconds for which a list will do; what is asked right before a write is never taken from it.
FRESH = 60.0

Records = Mapping[str, Mapping[str, str]]


class Cards:
    """What one run knows of them; with an empty name one verb on one host knows it alone."""

    def __init__(self, cli: Cli, run: str) -> None:
        self._cli = cli
        self._run = run
        self._list: tuple[float, Records] | None = None

    # -- all of them -------------------------------------------------------------------------------------------

    def lately(self) -> Records:
        """Of all nodes, as some host of this run has read it within the last minute."""
        if self._list is not None and _fresh(self._list[0]):
            return self._list[1]
        place = self._place()
        with ExitStack() as held:
            with suppress(OSError):
                if place is not None:
                    held.enter_context(locked(place.with_suffix(".lock")))
            self._list = _kept(place) or self._read(place)
        return self._list[1]

    def anew(self) -> Records:
        """Of all nodes, as they stand now: a list of a minute ago refuses nobody."""
        self._list = self._read(self._place())
        return self._list[1]

    def _read(self, place: Path | None) -> tuple[float, Records]:
        began = time.monotonic()
        found = self._cli.nodes([])
        with suppress(OSError):
            if place is not None:
                private.write(str(place), json.dumps({"at": began, "nodes": found}))
        return began, found

    def _place(self) -> Path | None:
        with suppress(OSError, ConfigError):
            name = hashlib.sha256(self._cli.address.encode()).hexdigest()[:32]
            return own_folder(self._run) / f"{name}.cards" if self._run else None
        return None

    # -- who has these -----------------------------------------------------------------------------------------

    def now(self, fields: Mapping[str, str]) -> Records:
        """The nodes that have one of these by now, and perhaps others."""
        found: dict[str, Mapping[str, str]] = {}
        for attribute in ALONE:
            value = fields.get(attribute, "")
            witness = self._witness(attribute, value) if value else ("", "")
            # Of IPv6 there are several spellings, and no expression for all of them.
            several = ":" in value and attribute in ("ip", "bmc")
            if value and (several or not witness[0]):
                return self._cli.nodes([])
            if value:
                # An ip may be several, and the node that has one of them lists it alone, or among others.
                asked = filter(None, map(str.strip, value.split(",")))
                told = self._cli.having(attribute, list(map(_in_any_case, (*asked, witness[1]))))
                if witness[0] not in told:
                    return self._cli.nodes([])
                found.update(told)
        return found

    def _witness(self, attribute: str, value: str) -> tuple[str, str]:
        """A node that has another one, and its own words for it: xCAT has to tell it as well."""
        others = ((name, record.get(attribute, "")) for name, record in self.lately().items())
        return next(((name, own) for name, own in others if own and own != value and own.isascii()), ("", ""))


def _kept(place: Path | None) -> tuple[float, Records] | None:
    with suppress(OSError, ValueError, KeyError):
        if place is not None:
            kept = json.loads(place.read_text(encoding="utf-8"))
            return (kept["at"], kept["nodes"]) if _fresh(kept["at"]) else None
    return None


def _fresh(at: float) -> bool:
    return 0 <= time.monotonic() - at < FRESH


def _in_any_case(value: str) -> str:
    """A regular expression for this text, of classes alone: no sign of it means anything else to a shell or to Perl."""
    return "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else _one(one) for one in value)


def _one(sign: str) -> str:
    return "[:-]?" if sign == ":" else sign if sign.isdigit() else "."
