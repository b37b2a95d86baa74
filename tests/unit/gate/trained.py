# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of trainings of our own making, and programs that print them in the place of a trainer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.judge import begin, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.taken import Taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, as_verdict, now_utc
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-28", "conditions": "none at all"}
NAME, STEPS, WARM_UP = "gpt", 12, 3
#: Milliseconds of a step, so few that a program that prints them at once could have taken as long.
USUAL, LIMIT = 5.0, 8.0
END = "[after training is done] datetime: 2026-11-28 10:00:00"
LOSSES = [round(11.0 - at / 4, 4) for at in range(STEPS)]


def row(**other: Any) -> dict[str, Any]:
    """A row of a profile; None leaves a key out."""
    known = {"name": NAME, "format": "megatron", "steps": STEPS, "warm_up": WARM_UP, "step_ms": LIMIT, **ABOUT}
    return {key: value for key, value in {**known, **other}.items() if value is not None}


def profile(*runs: dict[str, Any], count: int = 8) -> dict[str, Any]:
    return {**made.profile(count), "training": {"runs": list(runs) or [row()]}}


def line(step: int, loss: Any = "", ms: Any = USUAL, *, skipped: int = 0, nan: int = 0, more: str = "") -> str:
    """As Megatron tells a step."""
    told = "" if loss is None else f" lm loss: {loss or f'{LOSSES[step - 1]:E}'} |"
    return (
        f" iteration {step:8d}/{STEPS:8d} | consumed samples: {step:12d} | elapsed time per iteration (ms): {ms} |"
        f" learning rate: 1.200E-07 | global batch size:  2048 |{told} loss scale: 1.0 | grad norm: 1.500 |{more}"
        f" number of skipped iterations: {skipped:3d} | number of nan iterations: {nan:3d} |"
    )


def log(
    changed: Mapping[int, str] = {}, *, first: Sequence[str] = (), last: Sequence[str] = (END,), ms: Any = USUAL,
    without: Sequence[int] = (),
) -> str:  # fmt: skip
    """A whole log; changed: by step another line."""
    steps = [changed.get(at, line(at, ms=ms)) for at in range(1, STEPS + 1) if at not in without]
    return "\n".join(["using world size: 8", *first, *steps, *last, ""])


def megatron(ms: float = USUAL, losses: Sequence[Any] = tuple(LOSSES)) -> str:
    return log({at: line(at, one, ms) for at, one in enumerate(losses, 1)}, without=range(len(losses) + 1, STEPS + 1))


def nemo(ms: float = USUAL, losses: Sequence[Any] = tuple(LOSSES)) -> str:
    lines = [
        f"Training epoch 0, iteration {at}/{STEPS - 1} | lr: 1.9e-06 | global_batch_size: 8 | global_step: {at} |"
        f" reduced_train_loss: {loss} | train_step_timing in s: {ms / 1000}" + (" | consumed_samples: 8" if at else "")
        for at, loss in enumerate(losses)
    ]
    return "\n".join([*lines, f"`Trainer.fit` stopped: `max_steps={STEPS}` reached.", ""])


def nemo_bar(ms: float = USUAL, losses: Sequence[Any] = tuple(LOSSES)) -> str:
    bars = [
        f"\rEpoch 0: :  50%|#####     | {at + 1}/{STEPS} [00:01<00:01, v_num=1, reduced_train_loss={loss},"
        f" global_step={at:.2f}, consumed_samples=256.0, train_step_timing in s={ms / 1000}]"
        for at, loss in enumerate(losses)
        for _drawn in range(2)
    ]
    return "".join([*bars, f"`Trainer.fit` stopped: `max_steps={STEPS}` reached.\n"])


def json_lines(ms: float = USUAL, losses: Sequence[Any] = tuple(LOSSES)) -> str:
    told = [{"step": at, "m": {"t": ms / 1000, "loss": loss}, "tps": 900} for at, loss in enumerate(losses, 1)]
    return "\n".join(["Config: {a: 1}", '{"eval": 3}', *(json.dumps(one) for one in told), ""])


def plain(ms: float = USUAL, losses: Sequence[Any] = tuple(LOSSES)) -> str:
    return "".join(f"step {at} took {ms}ms loss={loss}\n" for at, loss in enumerate(losses, 1))


#: By format its row and its log.
FORMATS: dict[str, tuple[dict[str, Any], Any]] = {
    "megatron": (row(), megatron),
    "nemo": (row(format="nemo"), nemo),
    "nemo_bar": (row(format="nemo_bar"), nemo_bar),
    "json": (
        row(format="json", time_unit="s", keys={"step": "step", "time": "m.t", "loss": "m.loss", "tokens": "tps"}),
        json_lines,
    ),
    "pattern": (
        row(format="pattern", time_unit="ms", pattern=r"step (?P<step>\d+) took (?P<time>\S+)ms loss=(?P<loss>\S+)"),
        plain,
    ),
}  # fmt: skip


def params(folder: Path, text: Optional[str] = None, *, rc: int = 0, body: str = "", cries: str = "") -> dict[str, Any]:
    """The options of a training_gate over a machine whose trainer prints this."""
    (folder / "train.out").write_text(log() if text is None else text, encoding="utf-8")
    (folder / "train.err").write_text(cries, encoding="utf-8")
    program = f'echo "$*" >> {folder}/calls\n{body}\ncat {folder}/train.err >&2\ncat {folder}/train.out\nexit {rc}'
    tool = made.program(folder / "train", program)
    return {"command": [tool], "profile": profile(), "timeout": 20, "pci_path": made.pci(folder)}


def left(folder: Path, text: Optional[str] = None, *, node: str = "gpu001") -> dict[str, Any]:
    """The options of one that reads the log that a job has left."""
    path = folder / "train.log"
    path.write_text(f"{node}: started\n" + (log() if text is None else text), encoding="utf-8")
    path.chmod(0o644)
    return {"log": str(path), "profile": profile(), "node_names": ["gpu001"], "pci_path": made.pci(folder)}


def judged(
    text: str, asked: Optional[dict[str, Any]] = None, *, rc: Optional[int] = 0, ended: str = "exit",
    seconds: float = 1.0, mark: str = "", ran: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """What the gate says of a run that printed this, or of a file in which it stands."""
    wanted = wanted_of(profile(asked or row()))
    one = training_of(wanted)
    done = Run(("train",), rc, text.encode(), b"", ended, seconds)
    taken = Taken(("train",), text.encode(), mark, done if ran else None)
    sheet = begin(wanted, one, wanted.gpu_count, ran=ran)
    judge(sheet, taken, read(text, one, mark=mark), wanted, one)
    tool = Tool("reference training")
    return as_verdict("training_gate", sheet, tool=tool, started=now_utc(), evidence=f"sha256:{'0' * 64}")


def said(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["verdict"], found["remedy"], "; ".join(finding["text"] for finding in found["findings"])


def cell(found: dict[str, Any], name: str) -> dict[str, Any]:
    [one] = [one for one in found["checks"] if one["id"] == f"{NAME}.{name}"]
    return dict(one)


PROFILE = profile()
SLOW_AT_LAST = {at: line(at, ms=7.5) for at in (10, 11, 12)}
ONE_SLOW = {8: line(8, ms=40.0)}
XID = "NVRM: Xid (PCI:0000:9B:00): 79, pid=1, GPU has fallen off"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
IB = "gpu001:77:90 [3] NCCL WARN NET/IB : Got completion from peer 10.0.0.2 with status=12 opcode=0"
WATCHDOG = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"
REFERENCE = {"reference": [{"step": 12, "loss": LOSSES[-1]}, {"step": 6, "loss": LOSSES[5]}], "tolerance_percent": 2}
NO_END = log(last=())
