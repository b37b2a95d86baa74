# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU state gate: asks nvidia-smi or amd-smi what the driver knows of each GPU, and judges it. PRIVATE.

PRIVATE to the collection. It only looks: no GPU is loaded, and nothing is set.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import amd, links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.again import Looked, settled, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Seen, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import (
    Look,
    device_of,
    judge,
    uuid_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.readings import readings
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import (
    demanded,
    parse_version,
    section_of,
    tool_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id as this_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet, Tool, answer, digest

GATE = "gpu_state_gate"
_INTERVAL = 2.0
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def gpu_state_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Look at the GPUs and say what that proves."""
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=section_of)


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    try:
        session = _Session(params, ctx, begun.wanted)
    except ConfigError as exc:
        return answer(begun.unmeasured(str(exc), "boot_id"))
    sheet, look = session.measure()
    kept = session.save(sheet)
    tool = Tool(look.tool, look.seen.said("driver"), session.argv())
    verdict = begun.verdict(sheet, tool, digest(*(part for one in session.runs for part in one.parts())))
    gpus = [
        {"gpu": number, "uuid": uuid_of(gpu), "device": device_of(gpu), "address": "".join(gpu.said("bus_id")[:1])}
        for number, gpu in enumerate(look.seen.gpus)
    ]
    shown = [{"gpu": number, "uuid": uuid_of(gpu), **readings(gpu)} for number, gpu in enumerate(look.seen.gpus)]
    return answer(verdict, gpus=gpus, counters=look.rows(), readings=shown, evidence_path=kept)


class _Session:
    """All calls of the driver's tool for one verdict."""

    def __init__(self, params: Mapping[str, Any], ctx: Context, wanted: Wanted) -> None:
        """:raises ConfigError: where a second look cannot tell whether it is of the same boot as the first."""
        self._params, self._ctx, self._wanted = params, ctx, wanted
        self._kind = tool_of(wanted)
        self._tool = str(params.get(self._kind.replace("-", "_")) or self._kind)
        self._deadline = time.monotonic() + float(params.get("timeout") or 120)
        self._before: Optional[list[Mapping[str, Any]]] = params.get("before")
        self._boot = this_boot(str(params.get("boot_id_path") or _BOOT_ID))
        if self._before is not None and not self._boot:
            raise ConfigError("the boot id cannot be read", seen=str(params.get("boot_id_path")))
        self.runs: list[Run] = []

    def argv(self) -> list[str]:
        return [self._tool, *(amd.CALLS["metric"] if self._kind == amd.TOOL else ("-q", "-x"))]

    def _run(self, argv: list[str]) -> Run:
        done = run(argv, timeout=max(1.0, self._deadline - time.monotonic()))
        self.runs.append(done)
        return done

    def measure(self) -> tuple[Sheet, Look]:
        """A value that the driver cannot read just now is read again for a while, unless something fails for good."""
        found: list[Looked] = []

        def once() -> bool:
            found.append(self._once())
            return settled(found[-1])

        with suppress(DeadlineExceeded):
            self._ctx.wait(
                once,
                bool,
                timeout=min(float(self._params.get("again_timeout") or 0), self._deadline - time.monotonic()),
                interval=_INTERVAL,
                wanted="the driver can read each value",
            )
        return together(found)

    def _once(self) -> Looked:
        first = len(self.runs)
        seen = self._read()
        look = Look(seen, (), before=self._before, boot_id=self._boot, uptime=round(uptime(), 1), tool=self._kind)
        names = {cell.name for cell in demanded(self._wanted, parse_version(seen.said("driver")))}
        if seen.gpus and "nvlink" in names:
            look.state = self._links("-s")
        if seen.gpus and "nvlink_errors" in names:
            look.errors = self._links("-e")
        look.runs = self.runs[first:]
        return judge(look, self._wanted), look

    def _read(self) -> Seen:
        if self._kind != amd.TOOL:
            return read(self._run(self.argv()).text)
        return amd.read({name: self._run([self._tool, *call]).text for name, call in amd.CALLS.items()})

    def _links(self, option: str) -> Optional[links.Table]:
        """What a call says of the NVLinks. One that did not end well says nothing, not even that no link is up."""
        done = self._run([self._tool, "nvlink", option])
        return links.read(done.text) if done.ended == "exit" and done.rc == 0 else None

    def save(self, sheet: Sheet) -> str:
        def content() -> dict[str, Any]:
            return {"gate": GATE, "runs": [one.as_evidence() for one in self.runs]}

        return evidence.save(sheet, self._params, self._ctx, content)
