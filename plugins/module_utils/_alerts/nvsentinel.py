# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health events of NVSentinel, as its event exporter sends them: CloudEvents over HTTP. PRIVATE to the collection.

Source of the form: NVSentinel, event-exporter/pkg/transformer/cloudevents.go and
data-models/protobufs/health_event.proto, as of version 1.28.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import (
    LOOK,
    RECYCLE,
    Said,
    cause_of,
    listing,
    mapping,
    reason_of,
    unfit,
    word,
)

NAME = "nvsentinel"
_TYPE = "com.nvidia.nvsentinel.health."
#: RecommendedAction NONE and RESTART_APP: nothing is wrong with the machine.
_NOTHING_TO_DO = frozenset({0, 39})


def read(document: Any) -> list[Said]:
    """One event, or a batch of them as CloudEvents has it.

    :raises BadAnswer: where it is no health event.
    """
    events = listing(document, "the batch") if isinstance(document, list) else [document]
    told = [_event(one) for one in events]
    return [_said(one) for one in told if one.get("isHealthy") is not True]


def _event(document: Any) -> Mapping[str, Any]:
    envelope = mapping(document, "the event")
    if not word(envelope.get("type")).startswith(_TYPE):
        raise unfit("the event", f"a CloudEvent of type {_TYPE}v1", envelope.get("type"))
    return mapping(mapping(envelope.get("data"), "data").get("healthEvent"), "healthEvent")


def _said(event: Mapping[str, Any]) -> Said:
    codes = listing(event.get("errorCode") or [], "errorCode")
    return Said(
        node=word(event.get("nodeName")),
        cause=cause_of(event.get("checkName", ""), *sorted(map(str, codes))),
        do=_what(event),
        source=NAME,
        reason=reason_of(event.get("message"), event.get("checkName")),
        at=_seconds(event.get("generatedTimestamp")),
    )


def _what(event: Mapping[str, Any]) -> str:
    if event.get("isFatal") is True:
        return RECYCLE
    return "none" if any(event.get("recommendedAction", 0) == one for one in _NOTHING_TO_DO) else LOOK


def _seconds(told: Any) -> Optional[float]:
    """RFC 3339, with as many digits of a second as Go writes; one without a time is taken for one of now."""
    text, _dot, _rest = word(told).rstrip("Z").partition(".")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
