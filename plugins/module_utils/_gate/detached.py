# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate's measurement as a job that goes on by itself. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import DETACHED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

#: Is it a job already whose process this is? No option: nobody else says so.
HERE = "_here"

Again = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]


def detached(
    params: Mapping[str, Any],
    begun: Begun,
    measure: Callable[[], Mapping[str, Any]],
    *,
    limit: float,
    again: Again = lambda _known, _told: False,
    begins: Callable[[], object] = lambda: None,
) -> Result:
    """Start the job, or join it; nothing is known of its verdict yet.

    :param measure: gives the verdict, in a process of its own.
    :param limit: seconds after which it ends by itself.
    :param again: is a job that is known to be run once more, by its file and its answer?
    :param begins: writes down what whoever joins it must find, before anybody can.
    """

    def work() -> Mapping[str, Any]:
        try:
            return measure()
        except BaseException as exc:  # a job that breaks says so, or its silence would be taken for a kill
            return begun.unmeasured(f"the gate broke: {type(exc).__name__}: {cut(exc, 300)}", "crashed")

    profile = begun.wanted.reference()
    stale = DETACHED.get(begun.gate, job.STALE_SECONDS)
    starts = job.here if params.get(HERE) else job.start
    how: dict[str, Any] = {"again": again, "begins": begins, "stale": stale}
    found = starts(begun.gate, params, work, limit=limit, profile=profile, started=begun.started, **how)
    places = {name: str(params[name]) for name in ("state_dir", "boot_id_path")}
    return Result(changed=False, data={**found, **places})


def in_this_process(gate: Callable[[Mapping[str, Any], Context], Result], params: Mapping[str, Any]) -> int:
    """Measure as the job that this process is, and write down what was found; 0 where that is there.

    Nobody reads what it prints, and how it ended says nothing of the node: what counts is the file.
    """
    gate({**params, "detached": True, HERE: True}, Context())
    return 0 if job.told(str(params["state_dir"]), str(params["job"])) else 1
