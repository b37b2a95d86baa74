# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""network_gate and bit error rates: what mlxlink tells of a port, in the shape of MFT 4.26."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import ber, claimed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given
from hypothesis import strategies as st

RAILS = cables.links(effective_ber=1e-12)
KEY, CLEARED = "Effective Physical BER", "Time Since Last Clear [Min]"


def document(rate: Any = "15E-255", minutes: Any = "1043.4", **other: Any) -> dict[str, Any]:
    counters = {
        CLEARED: minutes,
        "Symbol Errors": "0",
        "Symbol BER": "15E-255",
        "Effective Physical Errors": "0",
        KEY: rate,
        "Raw Physical Errors Per Lane": {"values": ["812", "9", "4401", "77"]},
        "Raw Physical BER": "3E-9",
        "Raw Physical BER Per Lane": {"values": ["1E-9", "1E-11", "5E-9", "1E-10"]},
        **other,
    }
    up = {"State": "Active", "Physical state": "LinkUp", "Speed": "IB-NDR", "Width": "4x"}
    output = {"Operational Info": up, "Physical Counters and BER Info": counters}
    return {"status": {"code": 0, "message": "Success"}, "result": {"output": output}}


def params(folder: Path, told: Any, *, body: str = "", rows: tuple[dict[str, Any], ...] = (RAILS,)) -> dict[str, Any]:
    """The options of a gate whose mlxlink tells this of the second rail, and nothing wrong of the first."""
    for name, one in (("mlx5_0", document()), ("mlx5_1", told)):
        (folder / f"{name}.json").write_text(one if isinstance(one, str) else json.dumps(one), encoding="utf-8")
    script = f'echo "$@" >> {folder}/called\n[ "$2" = mlx5_0 ] || {{ :; {body}\n}}\ncat {folder}/$2.json'
    found = cables.params(folder, neighbours=None, profile=cables.profile(*rows))
    return {**found, "mlxlink": made.program(folder / "mlxlink", script)}


def judged(folder: Path, told: Any, **how: Any) -> dict[str, Any]:
    return dict(network_gate(params(folder, told, **how), Context()).data)


def test_rails_without_errors_pass_and_are_asked_as_the_tool_is_called(tmp_path: Path) -> None:
    found = judged(tmp_path, document())
    cells = {row["entity"]: row for row in found["checks"] if row["id"] == ber.EFFECTIVE}
    assert found["verdict"] == "pass", found["msg"]
    assert {name: (row["measured"], row["wanted"]) for name, row in cells.items()} == dict.fromkeys(
        cables.RAILS, (15e-255, 1e-12)
    )
    assert cells[cables.RAILS[0]]["unit"] == "of effective physical bits"
    assert found["tool"]["name"] == "kernel and mlxlink"
    assert (tmp_path / "called").read_text() == "-d mlx5_0 -c --json\n-d mlx5_1 -c --json\n"
    assert ber.command("mlxlink", "mlx5_0/2") == ["mlxlink", "-d", "mlx5_0", "-p", "2", "-c", "--json"]


def without(key: str) -> dict[str, Any]:
    told = document()
    del told["result"]["output"]["Physical Counters and BER Info"][key]
    return told


FAILED = {**document(), "status": {"code": 1, "message": "Failed to identify device: mlx5_1"}}


@pytest.mark.parametrize(
    ("told", "verdict", "word"),
    [
        (document("2E-8"), "fail", "mlx5_1/1: Effective Physical BER 2e-08, and the profile allows 1e-12"),
        (document("2E-12", "0.0"), "fail", "2e-12"),
        (document("0"), "pass", ""),
        (document("9.5E-13"), "pass", ""),
        (document(minutes="0.1"), "inconclusive", "too few bits"),
        (document(minutes="N/A"), "inconclusive", "at an unknown time"),
        (without(CLEARED), "inconclusive", "at an unknown time"),
        (document("N/A"), "inconclusive", "does not tell the Effective Physical BER"),
        (document({"values": ["15E-255"]}), "inconclusive", "does not tell"),
        (document(False), "inconclusive", "does not tell"),
        (document(float("nan")), "inconclusive", "does not tell"),
        (document("-15E-255"), "inconclusive", "does not tell"),
        (without(KEY), "inconclusive", "does not tell"),
        (FAILED, "inconclusive", "Failed to identify device"),
        ({"status": {"code": 0}, "result": {"output": {}}}, "inconclusive", "cannot be read"),
        (json.dumps(document())[:-3], "inconclusive", "cannot be read"),
        (json.dumps(document()).replace(f'"{KEY}"', f'"{KEY}": "15E-255", "{KEY}"'), "inconclusive", "cannot be read"),
        ("-E- Failed to open device\n", "inconclusive", "cannot be read"),
        ("", "inconclusive", "cannot be read"),
        (f"-W- a warning before it\n{json.dumps(document())}", "pass", ""),
    ],
)
def test_what_mlxlink_may_tell_instead(tmp_path: Path, told: Any, verdict: str, word: str) -> None:
    found = judged(tmp_path, told)
    assert found["verdict"] == verdict and word in str(found["findings"]), found["msg"]


@pytest.mark.parametrize(
    ("body", "word"), [("kill -9 $$", "signal 9"), ("exit 1", "exit status 1"), ("exec yes", "an end")]
)
def test_an_mlxlink_that_does_not_end_well(tmp_path: Path, body: str, word: str) -> None:
    found = judged(tmp_path, document(), body=body)
    assert found["verdict"] == "inconclusive" and word in str(found["findings"]), found["msg"]


def test_it_is_not_needed_where_nobody_asks(tmp_path: Path) -> None:
    plain = {**cables.params(tmp_path, neighbours=None), "mlxlink": "/nonexistent"}
    assert network_gate(plain, Context()).data["verdict"] == "pass"
    asked = {**plain, "profile": cables.profile(RAILS)}
    assert "not installed" in str(network_gate(asked, Context()).data["findings"])


@pytest.mark.parametrize("row", [{"effective_ber": 0.0}, {"symbol_ber": 1.0}, {"kind": "ethernet", "lanes": None}])
def test_a_limit_that_is_none_is_refused(row: dict[str, Any]) -> None:
    profile = cables.profile({**{k: v for k, v in RAILS.items() if k != "lanes"}, **row, "ports": ["a1"]})
    with pytest.raises(ConfigError):
        section_of(wanted_of(profile))
    with pytest.raises(ConfigError):
        profiles.check(profile, made.PROFILE_SCHEMA)


def test_a_node_cannot_leave_a_rate_out_or_claim_one_that_is_too_high(tmp_path: Path) -> None:
    both = cables.links(effective_ber=1e-12, symbol_ber=1e-14)
    options = params(tmp_path, document(), rows=(both,))
    verdict, asked = dict(network_gate(options, Context()).data), (options["profile"], [], {})
    profiles.check(options["profile"], made.PROFILE_SCHEMA)
    assert verdict["verdict"] == "pass" and claimed.lacking(*asked, verdict) == ""
    assert strange(verdict, claimed.own(*asked)) == ""
    for value in (1e-13, True, None, "0", -1.0, float("nan")):
        lied = copy.deepcopy(verdict)
        [row, *_others] = [row for row in lied["checks"] if row["id"] == ber.SYMBOL]
        row["measured"] = value
        assert "outside 0 to 1e-14" in claimed.lacking(*asked, lied)
    lied["checks"].remove(row)
    assert "required cells" in claimed.lacking(*asked, lied)
    assert "measured by" in strange({**verdict, "tool": {"name": "kernel"}}, claimed.own(*asked))


TEXT = json.dumps(document("2E-8"))


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=6))
def test_no_cut_of_a_bad_document_reads_as_a_rate_that_passes(at: int, length: int, put: str) -> None:
    seen = ber.read(TEXT[:at] + put + TEXT[at + length :])
    rate = seen.rates.get(ber.EFFECTIVE)
    assert seen.problem or rate is None or rate > 1e-12 or any(mark in put for mark in "0123456789eE-")
    assert ber.read(TEXT[:at]).problem or at == len(TEXT)
