# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The soak gate: loads all GPUs of a node for hours or days, and watches them meanwhile. PRIVATE to the collection.

It runs to its end here, or goes on by itself. Begun again under its name, it goes on from where it was cut off, or
takes longer than it was asked for first.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job, scope
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.detached import detached
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.kept import Store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.made_of import Parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.part import (
    Part,
    hours_of,
    limit_of,
    loads_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS, answer

GATE = "soak_gate"
_ITS_WORDS = "go on with it by the profile and the tests that it was begun with, or end it (stop)"
#: Its load is told to end, and its verdict is written.
_STOPS_WITHIN = 90.0


def soak_gate(params: Mapping[str, Any], ctx: Context, *, parts: Parts) -> Result:
    """Soak; or begin to, or go on; or end it."""
    hours_of(params)

    def needs(wanted: Wanted) -> None:
        parts.needs(wanted, loads_of(params))

    return begin(GATE, params, lambda begun: _look(params, ctx, begun, parts), needs=needs)


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun, parts: Parts) -> Result:
    stops = bool(params.get("stop"))
    what = "end the soak" if stops else f"load the GPUs for {hours_of(params):g} hours"
    if not ctx.may_write(what, destructive=not stops):
        return answer(begun.unmeasured(f"not run in check mode: it would {what}", "check_mode"))
    if stops:
        return _stopped(params, ctx, begun)
    if params.get("detached"):
        return _started(params, begun, parts)
    verdict, kept = Part(params, begun, parts, Store("", "")).run(ctx)
    return answer(verdict, evidence_path=kept)


def _started(params: Mapping[str, Any], begun: Begun, parts: Parts) -> Result:
    store, hours = Store(str(params["state_dir"]), str(params["job"])), hours_of(params)
    boot = job.boot_id(str(params["boot_id_path"]))
    if others := _others(params, boot):
        return _another(begun, others)
    words: list[str] = []

    def work() -> Mapping[str, Any]:
        unit = scope.enter(store.job, f"gpufleet soak of {hours:g} hours")
        return Part(params, begun, parts, store, unit, unsaid=FAIL not in words).run(Context())[0]

    def again(known: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
        """Not where it still runs, has failed, or was long enough."""
        word, lives = job.word(told), job.alive(known, boot) and not told
        words.append(word)
        if hours < store.asked() and (lives or word == PASS):
            raise _shorter(hours, store.asked())
        if lives and hours > store.asked():
            if store.over():
                raise _ending(hours)
            store.ask(hours)
        return not lives and word != FAIL and (word != PASS or hours > store.asked())

    # Who joins it asks for more than what stands there, and its own words must not come after those.
    return detached(params, begun, work, limit=limit_of(params, hours), again=again, begins=lambda: store.ask(hours))


def _ending(hours: float) -> Refused:
    return Refused(
        "the hours of this soak are over, and its verdict is just being written",
        wanted=f"{hours:g} hours",
        do="ask again when it has ended: it then goes on",
    )


def _shorter(hours: float, asked: float) -> ConfigError:
    return ConfigError(
        "this soak was asked for more hours already",
        wanted=f"{asked:g} hours or more",
        seen=f"{hours:g}",
        do="ask for as many, or end it (stop) and go on with fewer",
    )


def _stopped(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    """Tell the process that soaks to end, and wait until it has written what it saw."""
    known = job.known(str(params["state_dir"]), str(params["job"]))
    boot = job.boot_id(str(params["boot_id_path"]))
    if known and job.alive(known, boot):
        os.kill(int(known["pid"]), signal.SIGTERM)
        _gone(ctx, lambda: job.alive(known, boot))
    if others := _others(params, boot):
        return _another(begun, others)
    if known is None:
        return answer(begun.unmeasured("no soak goes on here", job.NO_SOAK))
    places = {key: str(params[key]) for key in ("state_dir", "boot_id_path")}
    return Result(changed=False, data={**known, "joined": True, **places})


def _others(params: Mapping[str, Any], boot: str) -> list[str]:
    """The soaks that go on here and were asked for in other words: what ends tells nothing of these. One that has told
    its verdict loads nothing any more, though its process may take a moment to go."""
    folder = str(params["state_dir"])
    living = job.living(folder, GATE, boot)
    return [name for name in living if name != params["job"] and not job.told(folder, name)]


def _another(begun: Begun, others: Sequence[str]) -> Result:
    text = f"a soak goes on here that was asked for in other words: {', '.join(others)}; {_ITS_WORDS}"
    return answer(begun.unmeasured(text, job.ANOTHER))


def _gone(ctx: Context, lives: Callable[[], bool]) -> None:
    ctx.wait(lives, lambda one: not one, timeout=_STOPS_WITHIN, interval=0.2, wanted="the soak has ended")
