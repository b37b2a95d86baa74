# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event logs of recorded Redfish trees of real machines: the right one is read, or it is said why none."""

from __future__ import annotations

import functools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import log_services
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.link import Answer, Link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Unsupported
from recorded import ABSENT
from suite.skips import not_applicable

from .conftest import Ctx
from .test_recorded import FILES, PARAMS, SYSTEMS, Recording

pytestmark = pytest.mark.skipif(not FILES, reason=ABSENT)

S, M = "/redfish/v1/Systems", "/redfish/v1/Managers"
#: Of each tree with a machine: which log, of what kind, and how many entries of it were recorded.
LOGS: dict[str, tuple[str, str, int]] = {
    "contoso-metaloperator": (f"{S}/437XR1138R2/LogServices/Log1", "sel", 2),
    "cray-ex235a-nc": (f"{M}/BMC/LogServices/SEL", "sel", 0),
    "dell-r750-idrac9-6.00.30.00": (f"{M}/iDRAC.Embedded.1/LogServices/Sel", "sel", 5),
    "dmtf-public-liquid-cooled-server": (f"{S}/437XR1138R2/LogServices/Log1", "sel", 1),
    "dmtf-public-localstorage": (f"{S}/437XR1138R2/LogServices/Log1", "sel", 2),
    "dmtf-public-rackmount1": (f"{S}/437XR1138R2/LogServices/Log1", "sel", 2),
    "dmtf-public-smartnic": (f"{S}/437XR1138R2/LogServices/Log1", "sel", 2),
    "dmtf-public-tower": (f"{S}/437XR1238R2/LogServices/Log1", "sel", 2),
    "gigabyte-h262z63-ami-12.84.13": (f"{M}/Self/LogServices/SEL", "sel", 10),
    "hpe-alletra4220-gen12-ilo7-1.17": (f"{S}/1/LogServices/IML", "platform", 9),
    "hpe-dl325g10plus-fc-ilo5-2.46": (f"{S}/1/LogServices/IML", "platform", 143),
    "hpe-dl325g10plus-ilo5-2.46-csm": (f"{S}/1/LogServices/IML", "platform", 143),
    "hpe-dl360g10plus-ilo5-3.11": (f"{S}/1/LogServices/IML", "platform", 142),
    "hpe-dl360gen12-ilo7-1.14": (f"{S}/1/LogServices/IML", "platform", 5),
    "hpe-dl365g10plus-ilo5-3.14": (f"{S}/1/LogServices/IML", "platform", 168),
    "hpe-dl380agen11-ilo6-1.66": (f"{S}/1/LogServices/IML", "platform", 117),
    "hpe-dl385g10plusv2-ilo5-2.72": (f"{S}/1/LogServices/IML", "platform", 5),
    "hpe-xl675d-a40-ilo5-2.55": (f"{S}/1/LogServices/IML", "platform", 210),
    "intel-s2600bpb-1.93": (f"{S}/QSBP74100021/LogServices/SEL", "sel", 10),
    "lenovo-sr670v2-xcc-2.83": (f"{S}/1/LogServices/PlatformLog", "platform", 5),
    "nvidia-dgxh100-ami-23.11.20": (f"{M}/BMC/LogServices/SEL", "sel", 75),
    "nvidia-gb200nvl-24.12-8": (f"{S}/System_0/LogServices/SEL", "sel", 10),
    "openbmc-stock-2.15": (f"{S}/system/LogServices/EventLog", "platform", 0),
    "supermicro-sys821ge-x13-11.01.01": (f"{S}/1/LogServices/Log1", "sel", 82),
    "supermicro-x10sdv-4.0": (f"{S}/1/LogServices/Log1", "sel", 65),
}
#: Whose log leads on to a page that was not recorded.
CUT = ("contoso", "dmtf", "intel")
#: Of machines whose logs were not recorded.
WITHOUT = ("nvidia-bf3-bmc-24.10-10", "supermicro-gb300-lambda")


class Asked(Recording):
    """Notes what was asked for."""

    def __init__(self, tree: dict[str, bytes]) -> None:
        super().__init__(tree)
        self.asked: list[str] = []

    def request(self, link: Link, method: str, target: str, body: Any, headers: Any) -> Answer:
        self.asked.append(target)
        return super().request(link, method, target, body, headers)


@functools.cache
def resources(path: Path) -> dict[str, bytes]:
    """With the entries of logs, each log's in one answer; those by themselves are left in the archive."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            parts = member.name.partition("/")[2].split("/")
            wanted = len(parts) <= 4 or parts[2] in ("Systems", "Managers") and len(parts) <= 8
            if member.isfile() and parts[-1] == "index.json" and wanted:
                data = archive.extractfile(member)
                assert data
                found["/" + "/".join(parts[:-1])] = data.read()
    return found


@pytest.fixture(params=FILES, ids=lambda path: path.name[:-7])
def recording(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Asked]:
    made = Asked(resources(request.param))

    def answered(link: Link, *rest: Any) -> Answer:
        return made.request(link, *rest)

    monkeypatch.setattr(Link, "_request", answered)
    return request.param.name[: -len(".tar.xz")], made


def test_each_recorded_log_is_read_or_it_is_said_why_not(recording: tuple[str, Asked]) -> None:
    name, tree = recording
    try:
        found = log({**PARAMS, "most": 5000}, Ctx()).data
    except ConfigError as exc:
        assert isinstance(SYSTEMS[name], list) and all(one in exc.seen for one in SYSTEMS[name])
        return
    except Unsupported as exc:
        assert name not in LOGS and (name in WITHOUT or SYSTEMS.get(name) is None)
        assert not any("/Entries" in uri for uri in tree.asked) and exc.what
        return
    uri, kind, entries = LOGS[name]
    assert (found["log"]["uri"], found["log"]["kind"], len(found["entries"])) == (uri, kind, entries)
    assert bool(found["unread"]) is name.startswith(CUT), found["unread"]
    assert found["bmc_time"] and found["total"] == entries
    assert len(tree.asked) < 15 and not tree.written
    json.dumps(found)


def test_no_word_of_a_recorded_entry_is_another_ones(recording: tuple[str, Asked]) -> None:
    """Each as it stands in the recording, in the order of its times."""
    name, tree = recording
    if name not in LOGS:
        not_applicable("it has no log, or no machine of its own")
    uri, _kind, _entries = LOGS[name]
    recorded = json.loads(tree.tree[f"{uri}/Entries".lower()])["Members"]
    found = log({**PARAMS, "most": 5000}, Ctx()).data["entries"]
    words = {str(one["Id"]): " ".join(str(one.get("Message") or "").split()) for one in recorded}
    for one in found:
        assert one["message"] == words[one["id"]] or not words[one["id"]]
        assert one["severity"] in ("ok", "warning", "critical", "unknown")
    times = [one["at"] for one in found if one["at"]]
    assert times == sorted(times, reverse=True)
    assert [one["id"] for one in log({**PARAMS, "most": 3}, Ctx()).data["entries"]] == [one["id"] for one in found[:3]]


def test_a_journal_of_a_recorded_bmc_is_never_asked_for(recording: tuple[str, Asked]) -> None:
    name, tree = recording
    try:
        log({**PARAMS, "most": 5}, Ctx())
    except FleetError:
        assert name not in LOGS
    never = {word for word, _why in log_services.NEVER}
    services = {uri.lower().partition("/logservices/")[2].partition("/")[0] for uri in tree.asked}
    assert not services & never
