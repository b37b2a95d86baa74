# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads recorded Redfish trees of real machines: the right system is chosen, and nothing ends in a traceback."""

from __future__ import annotations

import functools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.link import Answer, Link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unsupported
from recorded import ABSENT, recorded_dir
from suite.skips import not_applicable

from .conftest import Ctx

TREES = recorded_dir("redfish", "*.tar.xz")
FILES = sorted(TREES.glob("*.tar.xz")) if TREES else []
pytestmark = pytest.mark.skipif(not FILES, reason=ABSENT)

#: The machine's own system in each tree; several: somebody must say which; None: there is none.
SYSTEMS: dict[str, Any] = {
    "contoso-metaloperator": "437XR1138R2", "cray-cmm": None, "cray-ex235a-nc": "Node0",
    "cray-ex425-nc": ["Node0", "Node1"],
    "dell-forbidden-403": None, "dell-r750-idrac9-6.00.30.00": "System.Embedded.1",
    "dmtf-public-bladed": ["529QB9450R6", "529QB9451R6", "529QB9452R6", "529QB9453R6"],
    "dmtf-public-smartnic": "437XR1138R2", "dmtf-public-tower": "437XR1238R2", "gigabyte-h262z63-ami-12.84.13": "Self",
    "google-indus-hmb": None, "hpe-dl380agen11-ilo6-1.66": "1", "intel-s2600bpb-1.93": "QSBP74100021",
    "lenovo-sr670v2-xcc-2.83": "1", "liteon-powershelf": None, "nvidia-bf3-bmc-24.10-10": "Bluefield",
    "nvidia-dgxh100-ami-23.11.20": "DGX", "nvidia-gb200nvl-24.12-8": "System_0", "openbmc-stock-2.15": "system",
    "supermicro-gb300-lambda": "System_0", "supermicro-sys821ge-x13-11.01.01": "1", "supermicro-x10sdv-4.0": "1",
}  # fmt: skip
#: Where the override of a tree lies, below its system.
WRITTEN_AT = {
    "nvidia-dgxh100-ami-23.11.20": "/redfish/v1/Systems/DGX/SD",
    "nvidia-gb200nvl-24.12-8": "/redfish/v1/Systems/System_0/Settings",
    "nvidia-bf3-bmc-24.10-10": "/redfish/v1/Systems/Bluefield/Settings",
    "lenovo-sr670v2-xcc-2.83": "/redfish/v1/Systems/1",
    "dell-r750-idrac9-6.00.30.00": "/redfish/v1/Systems/System.Embedded.1",
}


@functools.cache
def resources(path: Path) -> dict[str, bytes]:
    """What the driver could ask for, by its URI; logs and telemetry, most of a tree, are left in the archive. Unpacked
    once for all tests, which change nothing in it."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            _tree, _slash, inside = member.name.partition("/")
            parts = inside.split("/")
            wanted = len(parts) <= 4 or parts[2] in ("Systems", "Managers") and len(parts) <= 7
            if member.isfile() and parts[-1] == "index.json" and wanted:
                data = archive.extractfile(member)
                assert data
                found["/" + "/".join(parts[:-1])] = data.read()
    return found


class Recording:
    """Stands in for the wire of a link."""

    def __init__(self, tree: dict[str, bytes]) -> None:
        self.tree = {uri.rstrip("/").lower(): body for uri, body in tree.items()}
        self.written: list[tuple[str, str, bytes]] = []

    def request(self, link: Link, method: str, target: str, body: Any, headers: Any) -> Answer:
        if method != "GET":
            self.written.append((method, target, body))
            return Answer(204, {}, b"")
        content = self.tree.get(target.rstrip("/").lower())
        return Answer(200, {}, content) if content is not None else Answer(404, {}, b"")


@pytest.fixture(params=FILES, ids=lambda path: path.name[:-7])
def recording(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Recording]:
    made = Recording(resources(request.param))

    def answered(link: Link, *rest: Any) -> Answer:
        return made.request(link, *rest)

    monkeypatch.setattr(Link, "_request", answered)
    return request.param.name[: -len(".tar.xz")], made


PARAMS = {
    "bmc_address": "https://bmc",
    "bmc_username": "u",
    "bmc_password": "p",
    "bmc_verify_tls": False,
    "timeout": 1.0,
}


def test_the_machine_is_found_and_nothing_breaks(recording: tuple[str, Recording]) -> None:
    name, tree = recording
    wanted = SYSTEMS.get(name, "")
    try:
        found = info(PARAMS, Ctx()).data
    except ConfigError as exc:
        assert isinstance(wanted, list) and all(one in exc.seen for one in wanted)
        return
    except Unsupported:
        assert wanted is None or name not in SYSTEMS
        return
    assert isinstance(wanted, str), name
    assert found["power"] in (c.ON, c.OFF, c.CHANGING, c.UNKNOWN)
    json.dumps(found)
    with RedfishBmc(PARAMS, Ctx()) as bmc:
        chosen = bmc.machine.uri.rstrip("/").rpartition("/")[2].lower()
    assert chosen == (wanted.lower() or chosen)


def test_writes_are_built_or_refused(recording: tuple[str, Recording]) -> None:
    name, tree = recording
    if not isinstance(SYSTEMS.get(name, ""), str):
        not_applicable("it has no machine of its own")
    try:
        with RedfishBmc(PARAMS, Ctx()) as bmc:
            for kind in (c.POWER_ON, c.FORCE_OFF):
                assert bmc.power.set(kind, destructive=False) == c.SENT
            for kind in (c.GRACEFUL_OFF, c.RESTART):
                try:
                    bmc.power.set(kind, destructive=False)
                except Unsupported:
                    continue
            try:
                bmc.boot.set_once(c.PXE, c.KEEP, "", destructive=False)
            except Unsupported as exc:
                assert "cray" in name or "gb300" in name or "no boot override" in exc.what, exc
                return
    except (ConfigError, Unsupported):
        assert name not in SYSTEMS
        return
    method, target, body = tree.written[-1]
    assert method == "PATCH" and json.loads(body)["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    assert target == WRITTEN_AT.get(name, target)


#: By what the machine of a tree is known: what is its own, and what it shares with a board.
KNOWN = {
    "dell-r750-idrac9-6.00.30.00": (("F54P1G3",), ("CNIVC0014M0388",)),
    "nvidia-gb200nvl-24.12-8": ((), ()),
    "openbmc-stock-2.15": ((), ()),
    "supermicro-x10sdv-4.0": ((), ()),
    "hpe-dl380agen11-ilo6-1.66": (("2M2D2J00L4",), ()),
    "nvidia-dgxh100-ami-23.11.20": (("1662923610124",), ()),
}


def test_r6_a_machine_is_known_by_what_is_its_own(recording: tuple[str, Recording]) -> None:
    name, _tree = recording
    if name not in KNOWN:
        not_applicable("nobody has written down who this one is")
    with RedfishBmc(PARAMS, Ctx()) as bmc:
        told = bmc.identify.known_by()
        serial = bmc.identify.identity().serial
    assert (told.serials, told.of_parts) == KNOWN[name]
    assert serial.strip() == (KNOWN[name][0] or ("",))[0]
