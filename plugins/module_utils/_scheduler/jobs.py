# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of our own that verifies an idle node, in words that fit all schedulers. PRIVATE to the collection.

Such a job gives way: whoever wants the node has it, and what becomes of the job then says nothing of the node. That a
job ended well says no more than that: what it found stands in a file on its node.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _token

#: By which a person finds them, and we do.
NAME = "gpufleet-verify"
#: What its token says it is.
VERIFY = "verify"
#: Where it stands: it has no node yet, is at work, ended by itself and well, had to give way, or ended otherwise.
STATES = (WAITS, RUNS, DONE, DISPLACED, CUT) = ("waits", "runs", "done", "displaced", "cut")
#: Neither at work nor over, as far as anybody here can tell: it is no end, and no result.
UNKNOWN = "unknown"
#: It is over.
OVER = (DONE, DISPLACED, CUT)


@dataclass(frozen=True)
class Ask:
    """One that is to run. node: as the scheduler calls it. token: of the run, and of nothing secret. queue: what the
    site has named for jobs that give way. seconds: after which it is ended. script: all that it runs."""

    node: str
    token: str
    queue: str
    seconds: float
    script: str


@dataclass(frozen=True)
class Job:
    """One that the scheduler knows, running or over. native: its own word for the state."""

    id: str
    node: str
    token: str
    state: str
    native: str

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def run(self) -> str:
        return _token.run_of(self.token)


def token(run: str, node: str) -> str:
    """What the job of this run on this node carries."""
    return _token.make_token(run, node, VERIFY)


def node_of(text: str) -> str:
    """The node in such a token; empty where it is none."""
    return _token.why_of(text) if _token.kind_of(text) == VERIFY else ""
