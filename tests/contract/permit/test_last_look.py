# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose turn for its resume comes late is looked at once more: its boot, its GPUs and its kernel log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import kernel_log_gate, scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.permit.rig import Controller, sent
from suite import programs

Make = Callable[..., Controller]
XID79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
MODULES = "ansible_collections.gpufleet.baremetal.plugins.modules"
GPU = "GPU-00000000-0000-4000-8000-00000000000"


class LogThere(kernel_log_gate.ActionModule):
    """Its module is a process of its own, as on the node."""

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        return sent(options["module_args"], module=f"{MODULES}.{self.NAME}")


class Waiting:
    """A node that was looked at, whose turn for its resume comes when that look is too old; it has a log and GPUs."""

    def __init__(self, site: Controller, folder: Path) -> None:
        self.site, self.folder = site, folder
        site.hold()
        for state in ("enrolled", "imaging", "validating"):
            site.tells("gpu001", "state", state)
        site.passport(looked=False)
        for name, text in (("product_serial", "S-gpu001"), ("boot_id", "boot-1"), ("gpus", f"{GPU}1\n{GPU}2")):
            (folder / name).write_text(f"{text}\n", encoding="utf-8")
        self.smi = folder / "nvidia-smi"
        programs.put(self.smi, f"#!/bin/sh\ncat {folder}/gpus\n")
        log = folder / "log"
        log.mkdir()
        self.logs(made.machine(log, made.kmsg("quiet", step=999.0)))
        self.asked = {"nvidia_smi": str(self.smi), "dmi_path": str(folder), "boot_id_path": str(folder / "boot_id")}

    def logs(self, gate: dict[str, Any]) -> None:
        given = {key: value for key, value in gate.items() if key != "since"}
        self.site.defaults["kernel_log_gate"] = {**given, "dmi_path": str(self.folder)}

    def look(self, run: str) -> None:
        seen = {"serial": "S-gpu001", "system_uuid": "", "gpu_uuids": [f"{GPU}1", f"{GPU}2"]}
        self.site.look(run=run, boot_id="boot-1", seen=seen, asked=self.asked)

    def resumed(self) -> dict[str, Any]:
        return self.site.run("scheduler_node", state="resumed")


@pytest.fixture
def waiting(controller: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    monkeypatch.setattr(scheduler_node, "KernelLog", LogThere)
    return Waiting(controller(), tmp_path)


def test_c6_a_host_that_waited_behind_slow_ones_is_looked_at_again(waiting: Waiting) -> None:
    """Its run has seen it, minutes ago: it is resumed where it is as it was, and by no older look."""
    site, folder = waiting.site, waiting.folder
    waiting.look("an earlier run")
    site.later(700)
    earlier = waiting.resumed()
    assert "a last look" in earlier["error"]["wanted"] and "readmit" in earlier["error"]["do"], "of another run"
    assert site.events("verdict") == []
    waiting.look(site.writer())
    site.later(1400)
    for name, text, kind in (("boot_id", "boot-2", "changed"), ("gpus", f"{GPU}1", "trust")):
        before = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
        refused = waiting.resumed()
        assert refused["error"]["kind"] == kind and "since its last look" in refused["msg"], refused
        (folder / name).write_text(before, encoding="utf-8")
    assert site.node()["state"] == "IDLE+DRAIN" and len(site.events("look")) == 2
    programs.put(waiting.smi, f"#!/bin/sh\necho 1450 > {folder}/ahead\ncat {folder}/gpus\n")
    site.node(booted=time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 1440)))
    refused = waiting.resumed()
    assert "no gate has seen this boot" in refused["msg"], "it began while the look took its time"
    site.node(booted="2026-11-20T10:12:58")
    assert waiting.resumed()["state"] == "idle" and len(site.events("look")) == 3
    assert site.events("verdict") == ["kernel_log_gate"] * 3, "with each renewal"


def test_c6_ch3_what_the_kernel_logged_since_the_last_look_keeps_the_hold(waiting: Waiting) -> None:
    """Boot and GPUs are those of before; the log of this very run passed minutes ago."""
    site, log = waiting.site, waiting.folder / "log"
    site.tells("gpu001", "verdict", "kernel_log_gate", {"verdict": "pass", "looked_at": time.time()})
    waiting.look(site.writer())
    site.later(700)
    (log / "kmsg").unlink()
    unread = waiting.resumed()
    assert unread["error"]["kind"] == "evidence_missing" and "readmit" in unread["error"]["do"], unread
    assert not quarantines(unread) and site.node()["state"] == "IDLE+DRAIN"
    waiting.logs(made.machine(log, made.kmsg(XID79, step=999.0)))
    refused = waiting.resumed()
    assert "fallen off the bus (Xid 79)" in refused["msg"] and quarantines(refused), refused
    assert refused["error"]["remedy"] and "fail" in site.data("verdict")[-1]
    assert site.node()["state"] == "IDLE+DRAIN" and site.events("look") == ["last"], "nothing was renewed"
    waiting.logs(made.machine(log, made.kmsg("quiet", step=999.0)))
    assert "no failure stands: kernel_log_gate" in waiting.resumed()["error"]["wanted"], "what was found stays found"
