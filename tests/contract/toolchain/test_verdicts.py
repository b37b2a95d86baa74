# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make verdicts: what is told of recorded outputs, and that a wrong admission or a traceback is noticed."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded import CHECKOUT, demanded

OUTPUTS = CHECKOUT / "tests" / "outputs"


def told(folder: Path, *options: str, script: Path = CHECKOUT / "make" / "verdicts.py") -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, str(script), str(folder), "--format", "json", *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"said": done.stderr}


def listed(folder: Path, *rows: dict[str, str]) -> Path:
    shutil.copytree(OUTPUTS, folder, dirs_exist_ok=True)
    with (folder / "SOURCES.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, sorted({key for row in rows for key in row}))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_v1_own_outputs_are_judged_as_wanted() -> None:
    rc, report = told(OUTPUTS)
    assert (rc, report["bad"]) == (0, [])
    assert {one["status"] for one in report["outputs"]} == {"ok"}
    assert [one["got"] for one in report["outputs"]] == [one["wanted"] for one in report["outputs"]]
    fallen = next(one for one in report["outputs"] if one["file"] == "kmsg_xid79.log")
    assert (fallen["finding"], fallen["remedy"]) == ("xid:79", "power_cycle")


@pytest.mark.parametrize("wanted", ["fail", "FAIL", "INDETERMINATE", "warn", "ERROR", "n/a"])
@pytest.mark.parametrize(("name", "tool"), [("dcgm_pass.json", "dcgm-diag"), ("kmsg_pass.log", "kmsg")])
def test_v1_an_admission_that_nobody_wanted_ends_with_an_error(
    tmp_path: Path, name: str, tool: str, wanted: str
) -> None:
    rc, report = told(listed(tmp_path / "data", {"file": name, "tool": tool, "verdict": wanted, "level": "2"}))
    assert rc == 1 and report["bad"] == [name]
    assert report["outputs"][0]["status"] == "WRONG ADMISSION"


@pytest.mark.parametrize(
    ("row", "got", "status"),
    [
        ({"file": "dcgm_pass.json", "exit_status": "205"}, "fail", "not admitted"),
        ({"file": "dcgm_cut.txt", "verdict": "fail"}, "inconclusive", "told milder"),
    ],
)
def test_v1_what_is_not_admitted_is_no_error(tmp_path: Path, row: dict[str, str], got: str, status: str) -> None:
    rc, report = told(listed(tmp_path / "data", {"tool": "dcgm_gate", "verdict": "pass", "level": "2", **row}))
    assert rc == 0 and [(one["got"], one["status"]) for one in report["outputs"]] == [(got, status)]


def test_v1_a_sku_of_the_call_holds_where_the_list_names_none(tmp_path: Path) -> None:
    folder = listed(tmp_path / "data", {"file": "dcgm_pass.json", "tool": "dcgm_gate", "level": "2"})
    rc, report = told(folder, "--sku", "h100-sxm-8")
    assert rc == 0 and report["outputs"][0]["got"] == "fail" and "h100-sxm-8" in report["outputs"][0]["asked"]
    assert told(folder)[1]["outputs"][0]["got"] == "pass"


def test_v1_a_list_that_proves_nothing_is_an_error(tmp_path: Path) -> None:
    gone = listed(tmp_path / "gone", {"file": "nothing.json", "tool": "dcgm_gate", "verdict": "fail"})
    rc, report = told(gone)
    assert rc == 1 and report["outputs"][0]["status"] == "no such file"
    other = listed(tmp_path / "other", {"file": "dcgm_pass.json", "tool": "hammer", "verdict": "fail"})
    assert told(other)[0] == 2
    (tmp_path / "empty").mkdir()
    assert told(tmp_path / "empty")[0] == 2


@pytest.mark.parametrize(
    ("row", "told_of"),
    [
        ({"sku": "h100-sxm-9000"}, "h100-sxm-9000"),
        ({"level": "two"}, "level is no number"),
        ({"tool": "dcgm_dig"}, "is dcgm-diag meant?"),
    ],
)
@pytest.mark.parametrize("wanted", ["fail", ""])
def test_v1_a_row_that_cannot_be_asked_is_no_row_as_wanted(
    tmp_path: Path, row: dict[str, str], told_of: str, wanted: str
) -> None:
    good = {"file": "dcgm_pass.json", "tool": "dcgm_gate", "level": "2", "verdict": wanted}
    rc, report = told(listed(tmp_path / "data", {**good, **row}, {**good, "verdict": "pass"}))
    assert rc == 1 and report["bad"] == ["dcgm_pass.json"]
    assert [one["status"] for one in report["outputs"]] == ["cannot be asked", "ok"]
    assert told_of in report["outputs"][0]["text"]


def test_v1_a_list_is_read_as_it_was_meant_or_not_at_all(tmp_path: Path) -> None:
    for column in ("Verdict", "verdit"):
        misspelt = listed(tmp_path / column, {"file": "dcgm_pass.json", "tool": "dcgm_gate", column: "fail"})
        rc, report = told(misspelt)
        assert rc == 2 and "is verdict meant?" in report["said"] and "SOURCES.csv:1" in report["said"]
    row = {"file": "dcgm_pass.json", "tool": "dcgm_gate", "verdict": "fail", "level": "2"}
    sheet = listed(tmp_path / "sheet", row) / "SOURCES.csv"
    sheet.write_bytes(b"\xef\xbb\xbf" + sheet.read_bytes())  # as a spreadsheet saves it
    assert told(sheet.parent)[0] == 1
    sheet.write_bytes("file,tool,why\nx,kmsg,K\u00fchlung\n".encode("latin-1"))
    rc, report = told(sheet.parent)
    assert rc == 2 and "not UTF-8" in report["said"]


def test_v1_a_gate_that_breaks_is_an_error(tmp_path: Path) -> None:
    """In a copy whose reader of logs raises."""
    for path in (CHECKOUT / "make").glob("verdicts*.py"):
        shutil.copy(path, tmp_path)
    broken = (
        (tmp_path / "verdicts_gates.py")
        .read_text()
        .replace("    raw = bool(", "    raise RuntimeError('x')\n    raw = bool(")
    )
    (tmp_path / "verdicts_gates.py").write_text(broken)
    rc, report = told(OUTPUTS, script=tmp_path / "verdicts.py")
    told_of = {one["file"].rpartition("/")[2]: one for one in report["outputs"]}
    assert rc == 1 and "RuntimeError: x" in told_of["kmsg_xid79.log"]["traceback"]
    assert report["bad"] == ["kmsg_pass.log", "kmsg_xid79.log"]


def test_v1_all_recorded_outputs_pass_it() -> None:
    rc, report = told(demanded("gates", "SOURCES.csv").parent)
    assert (rc, report["bad"]) == (0, [])
    assert sum("got" in one for one in report["outputs"]) > 15
    lost = [one["file"] for one in report["outputs"] if one["wanted"] == "PASS" and one.get("got") == "fail"]
    assert lost == []
    tools = ("nccl-tests", "nvbandwidth", "nvidia-smi", "nvidia-smi-xml", "nvlink")
    of_gpus = [one for one in report["outputs"] if one["tool"] in tools]
    assert {one["status"] for one in of_gpus if "got" in one} == {"ok"}
    assert all(one["text"] for one in of_gpus if "got" not in one), "it says why nobody judges it"
    page = (CHECKOUT / "docs" / "reference" / "recorded-outputs.md").read_text(encoding="utf-8")
    table = page.split("<!-- written by", 1)[1].split("<!-- end", 1)[0].splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table if line.startswith("| `")]
    keys = ("file", "wanted", "got", "finding", "status")
    shown = [[one.get(key) or ("–" if key == "got" else "") for key in keys] for one in report["outputs"]]
    assert rows == shown, "make verdicts WRITE=1 writes it anew"


def test_v1_the_page_has_what_was_judged_and_keeps_the_words_around_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "make"))
    import verdicts_page

    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{verdicts_page.BEGIN}old\n{verdicts_page.END}\nafter\n", encoding="utf-8")
    judged = {"file": "a|b.json", "wanted": "FAIL", "got": "fail", "finding": "xid:79", "status": "ok"}
    unread = {"file": "c.txt", "wanted": "", "status": "no gate reads it"}
    for _again in range(2):
        verdicts_page.write([judged, unread], "2 outputs", page=page)
        text = page.read_text(encoding="utf-8")
        assert "| `a/b.json` | FAIL | `fail` | `xid:79` | ok |\n| `c.txt` | – | – |  | no gate reads it |" in text
        assert "old" not in text and text.startswith("# Title\n") and text.endswith("\nafter\n")


@pytest.mark.parametrize(
    ("wanted", "got", "status"),
    [
        *(("CONFIG", "fail", "ok"), ("CONFIG", "inconclusive", "told milder"), ("SKIP", "inconclusive", "ok")),
        *(("ERROR", "fail", "told harder"), ("RETEST", "pass", "WRONG ADMISSION"), ("WARN", "fail", "ok")),
    ],
)
def test_v1_richer_words_than_three_verdicts(monkeypatch: Any, wanted: str, got: str, status: str) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "make"))
    import verdicts

    assert verdicts._status(wanted.lower(), got) == status
