# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel said in the boot that a reboot cut off counts for its soak; real processes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import Progress
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import Node
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import node as node

#: As /proc/sys/kernel/random/boot_id tells them.
ONE, ANOTHER = "1b4e28ba-2fa1-41d2-883f-0016d3cca427", "6fa459ea-ee8a-4ca4-894e-db77e160355e"


def _journal(folder: Path, boot: str, text: str, wall: float) -> str:
    """A journalctl that kept the kernel's line of one boot, five seconds old then."""
    entry = {"MESSAGE": text, "_BOOT_ID": boot.replace("-", ""), "_SOURCE_MONOTONIC_TIMESTAMP": "5000000"}
    kept = folder / "journal"
    kept.write_text(json.dumps({**entry, "__REALTIME_TIMESTAMP": str(int(wall * 1e6))}) + "\n", encoding="utf-8")
    asked = f"echo \"$@\" >> '{folder}/asked'"
    # systemd parses no id with dashes.
    parsed = (
        'for w in "$@"; do case "$w" in --boot=*) b=${w#--boot=};; esac; done; echo "$b" | grep -qxE "[0-9a-f]{32}"'
    )
    refused = f"( {parsed} ) || {{ echo Failed to parse boot descriptor >&2; exit 1; }}"
    only = f"case \"$*\" in *--boot={boot.replace('-', '')}*) cat '{kept}';; *) echo no such boot >&2; exit 1;; esac"
    return made.program(folder / "journalctl", f"{asked}\n{refused}\n{only}")


@pytest.mark.parametrize(
    ("text", "later", "word"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.", 4.0, "fail"),
        ("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.", -15.0, "pass"),
        ("usb 1-1: new high-speed USB device", 4.0, "pass"),
    ],
    ids=["while it soaked", "before it soaked", "nothing"],
)
def test_what_the_kernel_said_in_the_boot_that_was_cut_off_counts(
    node: Node, text: str, later: float, word: str
) -> None:
    """What the clock of the day said of the line is no matter: somebody had set it back by hours."""
    began = time.time() - 500
    before = Progress()
    before.begin(ONE, began, 5.0 - later)
    node.jobs.mkdir(mode=0o700)
    node.store.save(before)
    node.reboot()
    started = node.start(journalctl=_journal(node.folder, ONE, text, began - 7200))
    assert node.verdict()["verdict"] == word
    assert f"--boot={ONE.replace('-', '')}" in (node.folder / "asked").read_text(encoding="utf-8")
    if word == "fail":
        finding = node.verdict()["findings"][0]
        assert (finding["id"], finding["remedy"]) == ("xid:79", "power_cycle")
        assert "in the boot that was cut off" in finding["text"] and not node.burns(), "nothing was loaded any more"
        assert node.waited(started)["remedy"] == "power_cycle"
        assert node.start()["joined"], "to begin again is no way out of a failure"


def test_a_boot_of_which_the_journal_kept_nothing_fails_nobody(node: Node) -> None:
    before = Progress()
    before.begin(ONE, time.time() - 500)
    node.jobs.mkdir(mode=0o700)
    node.store.save(before)
    node.start(journalctl=_journal(node.folder, ANOTHER, "quiet", 1.0))
    assert node.verdict()["verdict"] == "pass" and node.cell("interruptions") == 1
