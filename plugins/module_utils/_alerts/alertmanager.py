# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus' Alertmanager sends to a webhook. PRIVATE to the collection.

Source of the form, version 4: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import (
    LOOK,
    RECYCLE,
    Said,
    cause_of,
    listing,
    mapping,
    reason_of,
    word,
)

NAME = "alertmanager"
#: The label by which a site's own rule says what is to be done; "none" for nothing.
OWN_LABEL, NOTHING = "gpufleet", "none"
#: Where a rule has no such label. Source: the severities of the Prometheus Operator's own rules.
_BY_SEVERITY: Mapping[str, str] = {"critical": RECYCLE, "warning": LOOK}
#: Labels that name the node, the first that an alert has: a rule's own, those of dcgm-exporter and of
#: kube-state-metrics, and at last the address that was scraped, without its port.
NODE_LABELS = ("node", "nodename", "Hostname", "hostname", "instance")


def read(document: Any, labels: Sequence[str] = NODE_LABELS) -> list[Said]:
    """:raises BadAnswer: where it is nothing that Alertmanager sends."""
    alerts = listing(mapping(document, "the message").get("alerts"), "alerts")
    told = [mapping(one, "an alert") for one in alerts]
    return [_said(one, labels or NODE_LABELS) for one in told if one.get("status") == "firing"]


def _said(alert: Mapping[str, Any], labels: Sequence[str]) -> Said:
    has, notes = mapping(alert.get("labels"), "labels"), alert.get("annotations") or {}
    notes = mapping(notes, "annotations")
    return Said(
        node=_node(has, labels),
        cause=cause_of(has.get("alertname", "")),
        do=_what(has),
        source=NAME,
        reason=reason_of(notes.get("summary"), notes.get("description"), has.get("alertname")),
        labels=has,
    )


def kept_back(labels: Mapping[str, Any]) -> bool:
    """Does its own label keep back the recycle of its severity? A series may have set it, to any word."""
    return _what(labels) != RECYCLE and _by_severity(labels) == RECYCLE


def _what(labels: Mapping[str, Any]) -> str:
    return word(labels.get(OWN_LABEL)).lower() or _by_severity(labels)


def _by_severity(labels: Mapping[str, Any]) -> str:
    return _BY_SEVERITY.get(word(labels.get("severity")).lower(), NOTHING)


def _node(labels: Mapping[str, Any], names: Sequence[str]) -> str:
    found = next((word(labels[name]) for name in names if word(labels.get(name))), "")
    host, colon, port = found.rpartition(":")
    return host if colon and port.isdigit() else found
