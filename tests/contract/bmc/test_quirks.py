# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the tables of quirks earns its place: there is a BMC with which a verb goes wrong without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import quirks as ipmi_quirks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import quirks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unsupported
from fake_bmc import ipmi_server

from .conftest import IpmiRig, Rig
from .test_redfish import Make, boot, change

PLACE = Path(__file__).resolve().parents[3] / "plugins" / "module_utils" / "_bmc"
#: Each driver has a table of its own, or none.
TABLES = {"ipmi": ipmi_quirks, "redfish": quirks}


@dataclass(frozen=True)
class Case:
    """A BMC and what a verb comes to with it, in one word; another word, or an error, where the row is missing."""

    vendor: str
    act: Callable[[Any], Any]
    wanted: Any
    power: str = "Off"


def _boots(rig: Any, **more: Any) -> Any:
    return boot(rig, **more)["proof"]


def _inconclusive(rig: Any) -> Any:
    return boot(rig, accept_inconclusive=True)["verdict"]


def _sent(state: str) -> Callable[[Any], Any]:
    def act(rig: Any) -> Any:
        change(rig, state)
        return [body["ResetType"] for _method, _path, body in rig.bmc.writes]

    return act


def _shown_by(rig: Any) -> Any:
    """This BMC reads On all through a restart."""
    rig.bmc.faults["no_edge"] = True
    return change(rig, "reset")["proof"]


def _legacy(rig: Any) -> Any:
    """What cannot be done is known before anything is sent."""
    with pytest.raises(Unsupported, match="cannot switch the boot mode"):
        boot(rig, mode="legacy")
    return rig.writes()


#: Row -> its case. A row whose BMC is the real simulator stands in CASES_IPMI.
CASES: dict[str, Case] = {
    "sushy-tools-once": Case("once_unseen", _inconclusive, "inconclusive"),
    "ilo-restart": Case("ilo", _sent("reset"), ["GracefulRestart"], "On"),
    "ilo-post-state": Case("ilo", _shown_by, "start_stage", "On"),
    "xcc-reboots": Case("lenovo", _shown_by, "reset_count", "On"),
    "hpe-off": Case("cray", _sent("off"), ["Off"], "On"),
    "ilo-boot-properties": Case("ilo", _legacy, 0),
    "lenovo-sr675-reset": Case("lenovo", _sent("reset"), ["GracefulRestart"], "On"),
    "supermicro-boot-request": Case("supermicro", _boots, "readback"),
    "supermicro-uefi-alias": Case("supermicro", _boots, "readback"),
    "ami-boot-request": Case("ami_whole", _boots, "readback"),
    "asrock-boot-request": Case("asrock", _boots, "readback"),
    "ami-boot-sd": Case("ami_unlinked", _boots, "readback"),
    "gh200-uefi-http": Case("gh200", lambda rig: _boots(rig, target="uefi_http"), "readback"),
    "idrac-boot-settings": Case("idrac10", _boots, "readback"),
    "idrac-power-on": Case("idrac10", lambda rig: change(rig, "cycle")["after"], {"power": "on"}, "On"),
}
CASES_IPMI: dict[str, Callable[[Any], Any]] = {"openipmi-sim-boot-flags": _inconclusive}


@pytest.fixture
def with_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Optional[str]], None]:
    """The tables without one row: their data, not their code, is what is changed."""

    def keep(without: Optional[str]) -> None:
        for table in TABLES.values():
            monkeypatch.setattr(table, "QUIRKS", tuple(row for row in table.QUIRKS if row.name != without))

    return keep


def outcome(act: Callable[[Rig], Any], rig: Rig) -> Any:
    try:
        return act(rig)
    except FleetError as exc:
        return exc.kind
    except pytest.fail.Exception:
        return "nothing was raised"


def test_t1_every_row_has_a_case() -> None:
    assert {path.parent.name for path in PLACE.glob("*/quirks.py")} == set(TABLES)
    assert {row.name for table in TABLES.values() for row in table.QUIRKS} == set(CASES) | set(CASES_IPMI)


@pytest.mark.parametrize("name", CASES)
def test_t1_a_row_is_needed(fake: Make, with_rows: Callable[[Optional[str]], None], name: str) -> None:
    case = CASES[name]
    assert outcome(case.act, fake(case.vendor, lag=0.1, power=case.power)) == case.wanted
    with_rows(name)
    assert outcome(case.act, fake(case.vendor, lag=0.1, power=case.power)) != case.wanted


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[IpmiRig]:
    if not ipmi_server.PROGRAM:
        pytest.skip("needs ipmi_sim (Debian package openipmi)")
    with ipmi_server.IpmiSim(tmp_path / "sim") as running:
        yield IpmiRig(running)


@pytest.mark.parametrize("name", CASES_IPMI)
def test_t1_a_row_of_ipmi_is_needed(sim: IpmiRig, with_rows: Callable[[Optional[str]], None], name: str) -> None:
    assert outcome(CASES_IPMI[name], sim) == "inconclusive"
    with_rows(name)
    assert outcome(CASES_IPMI[name], sim) == "not_proven"
