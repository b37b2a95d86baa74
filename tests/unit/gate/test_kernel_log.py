# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a kernel log may be believed: whole, of this boot, since the start of the window."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import read as klog_read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

XID79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def gate(params: dict[str, Any]) -> dict[str, Any]:
    return dict(kernel_log_gate(params, Context()).data)


def test_a_whole_log_of_this_boot_passes(tmp_path: Path) -> None:
    result = gate(made.machine(tmp_path, made.kmsg("NVRM: loading", "nvidia-nvswitch0: open")))
    assert result["verdict"] == "pass", result["msg"]
    assert result["window"]["records"] == 3
    assert result["window"]["boot_id"] == "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "empty"),
        (made.kmsg("late", start=500, seq=40), "begins 500 s after the boot"),
        (made.kmsg("a") + made.kmsg("b", start=9, seq=17), "lost records"),
        (made.kmsg("a", step=5000), "another boot"),
        ("no record of any kind\n", "carry no time"),
    ],
)
def test_a_log_that_proves_nothing(tmp_path: Path, log: str, reason: str) -> None:
    result = gate(made.machine(tmp_path, log))
    assert result["verdict"] == "inconclusive"
    assert reason in result["msg"]
    assert {row["id"]: row["verdict"] for row in result["checks"]}["window"] == "inconclusive"


def test_a_log_that_is_not_there_or_may_not_be_read(tmp_path: Path) -> None:
    params = made.machine(tmp_path, "")
    assert "cannot be read" in gate({**params, "path": str(tmp_path / "nothing")})["msg"]
    assert "cannot be read" in gate({**params, "path": str(tmp_path)})["msg"]


def test_a_fault_in_half_a_log_is_a_fault(tmp_path: Path) -> None:
    result = gate(made.machine(tmp_path, made.kmsg(XID79, start=500, seq=40)))
    assert (result["verdict"], result["remedy"]) == ("fail", "power_cycle")


def test_a_window_that_begins_after_the_log_does_needs_no_more(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg("late", "later", start=500, seq=40), uptime=1000)
    assert gate({**params, "since": "400"})["verdict"] == "pass"
    assert gate({**params, "since": "600"})["verdict"] == "inconclusive"


def test_what_was_before_the_window_does_not_count(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg(XID79, "quiet", "quiet", step=100), uptime=1000)
    assert gate({**params, "since": "boot"})["verdict"] == "fail"
    assert gate({**params, "since": "950"})["verdict"] == "fail"
    assert gate({**params, "since": "500"})["verdict"] == "pass"


def test_t1_a_line_without_any_time_may_be_of_the_window(tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text(f"[    0.000000] Linux version 6.8\n{XID79}\n", encoding="utf-8")
    params = {**made.machine(tmp_path, "", uptime=1000), "source": "file", "path": str(tmp_path / "dmesg")}
    assert gate({**params, "since": "100"})["verdict"] == "fail"


def test_a_window_in_wall_clock_time(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg(XID79, "quiet", step=100), uptime=1000)
    hour_ago, short_ago = time.time() - 3600, time.time() - 500
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    assert gate({**params, "since": time.strftime(stamp, time.gmtime(hour_ago))})["verdict"] == "fail"
    assert gate({**params, "since": time.strftime(stamp, time.gmtime(short_ago))})["verdict"] == "pass"


@pytest.mark.parametrize("since", ["2999-01-01T00:00:00Z", "soon", "-5", "nan", "inf"])
def test_a_window_that_is_none(tmp_path: Path, since: str) -> None:
    result = gate({**made.machine(tmp_path, made.kmsg("quiet")), "since": since})
    assert result["verdict"] == "inconclusive"


def test_no_uptime_no_verdict(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("quiet")), "uptime_path": str(tmp_path / "nothing")}
    assert gate(params)["verdict"] == "inconclusive"


def test_a_crash_that_the_kernel_kept_over_the_boot(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg("quiet"))
    record = tmp_path / "pstore" / "dmesg-erst-1"
    record.write_text("Oops", encoding="utf-8")
    before_boot = time.time() - 2000
    os.utime(record, (before_boot, before_boot))
    assert gate(params)["verdict"] == "pass"
    result = gate({**params, "since": "3000"})
    assert (result["verdict"], result["remedy"]) == ("fail", "field_diag")


def test_a_device_that_has_no_more_to_say_is_not_waited_for(tmp_path: Path) -> None:
    """A fifo answers as /dev/kmsg does where nothing is left: the reader must not block."""
    params = made.machine(tmp_path, "")
    os.mkfifo(tmp_path / "fifo")
    held = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        os.write(held, made.kmsg("quiet").encode())
        assert gate({**params, "path": str(tmp_path / "fifo")})["verdict"] == "pass"
    finally:
        os.close(held)


def test_an_overwritten_record_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        made.kmsg("a").encode(),
        BrokenPipeError(32, "overwritten"),
        b"6,9,9000000,-;b\n",
        BlockingIOError(),
    ]

    def read(descriptor: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    params = made.machine(tmp_path, "")
    with monkeypatch.context() as patched:
        patched.setattr(klog_read.os, "read", read)
        log = klog_read.read_kmsg(params["path"], 0.0)
    assert [line.text for line in log.lines][-1] == "b"
    assert any("lost records" in problem for problem in log.problems)


def _journal(folder: Path, *entries: dict[str, Any], rc: int = 0) -> str:
    lines = "\n".join(json.dumps(entry) for entry in entries)
    (folder / "journal.out").write_text(lines + "\n", encoding="utf-8")
    return made.program(folder / "journalctl", f"cat {folder / 'journal.out'}\nexit {rc}")


def _entry(text: Any, at: float, boot: str = "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51") -> dict[str, Any]:
    return {
        "MESSAGE": text,
        "_SOURCE_MONOTONIC_TIMESTAMP": str(int(at * 1e6)),
        "__REALTIME_TIMESTAMP": str(int((time.time() - 1000 + at) * 1e6)),
        "_BOOT_ID": boot,
    }


def test_the_journal(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    quiet = [_entry("Linux version 6.8", 0.0), _entry("nvidia loaded", 9.0)]
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet)})["verdict"] == "pass"
    bytes_of = list(XID79.encode())
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet, _entry(bytes_of, 10.0))})["verdict"] == "fail"
    missed = _entry("Missed 12 kernel messages", 10.0)
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet, missed)})["verdict"] == "inconclusive"
    other = [_entry("Linux version 6.8", 0.0, "0" * 32)]
    assert gate({**params, "journalctl": _journal(tmp_path, *other)})["verdict"] == "inconclusive"
    late = [_entry("nvidia loaded", 9.0)]
    assert gate({**params, "journalctl": _journal(tmp_path, *late)})["verdict"] == "inconclusive"
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet, rc=1)})["verdict"] == "inconclusive"
    assert gate({**params, "journalctl": _journal(tmp_path)})["verdict"] == "inconclusive"
    assert gate({**params, "journalctl": str(tmp_path / "nothing")})["verdict"] == "inconclusive"
    assert (
        gate({**params, "journalctl": made.program(tmp_path / "j", "echo '{\"MESSAGE\": 1'")})["verdict"]
        == "inconclusive"
    )


def test_auto_takes_the_journal_where_the_ring_forgot_the_start(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("late", start=500, seq=40)), "source": "auto"}
    quiet = [_entry("Linux version 6.8", 0.0), _entry("nvidia loaded", 9.0), _entry("late", 500.0)]
    result = gate({**params, "journalctl": _journal(tmp_path, *quiet)})
    assert (result["verdict"], result["tool"]["name"]) == ("pass", "journal")
    assert gate({**params, "journalctl": str(tmp_path / "nothing")})["verdict"] == "inconclusive"
    # What the ring itself shows is not forgiven because the journal does not have it.
    (tmp_path / "kmsg").write_text(made.kmsg(XID79, start=500, seq=40), encoding="utf-8")
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet)})["verdict"] == "fail"


def test_auto_does_not_ask_the_journal_where_the_ring_is_whole(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("quiet")), "source": "auto", "journalctl": str(tmp_path / "nothing")}
    assert gate(params)["verdict"] == "pass"


def test_a_file(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "file"}
    (tmp_path / "dmesg").write_text("[    0.000000] Linux version 6.8\n[    9.000000] quiet\n", encoding="utf-8")
    assert gate({**params, "path": str(tmp_path / "dmesg")})["verdict"] == "pass"
    (tmp_path / "dmesg").write_text("[    9.000000] quiet\n", encoding="utf-8")
    assert gate({**params, "path": str(tmp_path / "dmesg")})["verdict"] == "inconclusive"
    assert gate({**params, "path": str(tmp_path / "dmesg"), "since": "100"})["verdict"] == "pass"


def test_evidence_is_kept_for_its_owner(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("quiet")), "evidence_path": str(tmp_path / "evidence.json")}
    result = gate(params)
    assert result["evidence_path"] == str(tmp_path / "evidence.json")
    assert os.stat(result["evidence_path"]).st_mode & 0o777 == 0o600
    assert "quiet" in json.loads(Path(result["evidence_path"]).read_text())["logs"][0]["raw"]
    lost = gate({**params, "evidence_path": str(tmp_path / "no" / "folder")})
    assert (lost["verdict"], lost["evidence_path"]) == ("inconclusive", "")
