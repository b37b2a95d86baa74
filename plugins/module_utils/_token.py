# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a hold, and the run in it: one for all ports. PRIVATE to the collection.

A token reads ``gpufleet:<run>:<why>``, or ``gpufleet:<run>+<kind>:<why>`` where the hold is not one of a run's own. It
stands at the beginning of what a scheduler or a provisioner keeps as the reason; some append to it. The form alone
proves nothing, since another site's controller writes the same: a hold is ours when the run in it is one that our own
ledger knows for this node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import discreet
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import one_line

#: What starts every hold of ours; anything else in its place is somebody else's.
PREFIX = "gpufleet:"
_TOKEN = re.compile(r"gpufleet:(?P<run>[^:\s+]+)(?:\+(?P<kind>[a-z]+))?:(?P<why>.*)", re.S)
_NOT_OF_A_RUN = re.compile(r"[^A-Za-z0-9._-]")
_WHY_LENGTH = 500
#: What reads like a part of a peer's own record, where it shows a reason among its fields: ``State=...``, who wrote it
#: and when in brackets, a quotation's end.
_RECORD_MARKS = str.maketrans({"=": ":", "[": "(", "]": ")", '"': "'"})
#: Before it slurmctld ends a reason and begins what it appends.
_APPENDS = re.compile(r"\s+:(?=\s)")
#: The kind of hold that a token does not spell out: a run's own, for its work.
USUAL = "work"
#: A person's hold that was made through us: no run lifts it, whichever took it.
KEEP = "keep"
#: Of a node that a verdict speaks against: it ends with its remedy, or where the node is readmitted.
QUARANTINE = "quarantine"
#: What a provisioner keeps of a node that went to another one.
MOVED = "moved"
#: Kinds of a provisioner's hold that no run lifts, and what each says.
KEPT: Mapping[str, str] = {
    KEEP: "held by a person: a keep hold that was made through us, and that no run lifts",
    MOVED: "the node was moved from here to another provisioner",
}


def has_form(reason: str) -> bool:
    """Is this written as this collection's runs write it, ours or another controller's?"""
    return reason.startswith(PREFIX)


def clean_run(run: str) -> str:
    """A run's id as it stands in a token: without blanks and colons, which end it there."""
    return _NOT_OF_A_RUN.sub("_", run)


def _clean_why(why: str) -> str:
    """Whatever a finding says, nothing in it ends the reason, or is taken for a field, its author or an appendix.

    Nor does it tell a secret that a peer echoed: who may read the reason of a node is not for us to say.
    """
    told = one_line(discreet(why, frozenset())).translate(_RECORD_MARKS)
    return _APPENDS.sub(":", told)[:_WHY_LENGTH].rstrip()


def make_token(run: str, why: str, kind: str = USUAL) -> str:
    """One line of plain text; a reason is shown on terminals and parsed by scripts."""
    return f"{PREFIX}{clean_run(run)}{'' if kind == USUAL else f'+{kind}'}:{_clean_why(why)}"


def run_of(reason: str) -> str:
    """The run in a token; empty where there is none."""
    found = _TOKEN.match(reason)
    return found["run"] if found else ""


def kind_of(reason: str) -> str:
    """What kind of hold a token says it is; empty where there is none."""
    found = _TOKEN.match(reason)
    return (found["kind"] or USUAL) if found else ""


def why_of(reason: str) -> str:
    """What a token says behind run and kind; empty where there is none."""
    found = _TOKEN.match(reason)
    return found["why"] if found else ""


def says(reason: str, why: str) -> bool:
    """Does the token's own text say this? Peers append to it, so its beginning counts."""
    found = _TOKEN.match(reason)
    return found is not None and found["why"].startswith(_clean_why(why))


def says_just(token: str, why: str) -> bool:
    """Does it say this, and nothing behind it? Of a text to which nobody has appended."""
    return why_of(token) == _clean_why(why)


def runs_of(*given: Iterable[str] | None) -> frozenset[str]:
    """Ids of runs as they are compared with tokens."""
    return frozenset(clean_run(str(run)) for runs in given for run in runs or () if run)


def known_runs(options: Mapping[str, Any]) -> frozenset[str] | None:
    """The option ``known_runs``; None where no ledger was there to tell."""
    given = options.get("known_runs")
    return None if given is None else runs_of(given)
