# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver and older releases of MAAS, in what these differ by its public source (tests/maas_server/versions.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, NotOurs, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import upload
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import await_all, deployed, lead, ready
from maas_server import versions
from maas_server.versions import TOLD
from sites import patched

pytestmark = pytest.mark.slow


@pytest.fixture(params=sorted(TOLD.values()))
def maas(request: pytest.FixtureRequest, maas_site: Any) -> Iterator[Any]:
    with maas_site.in_good_health() as site, patched((site.server.config, "version", request.param)):
        yield site


def _api(maas: Any) -> MaasApi:
    return MaasApi(maas.connection(), Context())


def _awaited(maas: Any, goal: str, options: dict[str, Any]) -> dict[str, Any]:
    verdict: dict[str, Any] = await_all(maas, goal, options)["verdicts"][options["name"]]
    return verdict


def test_it_is_the_release_that_it_says(maas: Any) -> None:
    """What the driver may not rest on is not there."""
    told = _api(maas)
    version = told.get("version/")["version"]
    assert version == maas.server.config.version
    options = ready(maas)
    [one] = told.machines([("hostname", options["name"])])
    assert ("error_description" in one) == (version >= "3.5") and ("is_dpu" in one) == (version >= "3.7")


def test_a_whole_life(maas: Any) -> None:
    options = {**maas.new(), "image": maas.image(), "deploy_id": "61"}
    lead(options, "ready")
    assert _awaited(maas, "ready", options)["ok"]
    lead(options, "deployed", annotations={"rack": "r12"})
    assert _awaited(maas, "deployed", options)["ok"] and not lead(options, "deployed")["changed"]
    mine = {"known_runs": ["r1"], "run_id": "r1"}
    assert lead(options, "maintenance", **mine)["hold"] and maas.machine(options["name"]).locked
    assert not lead(options, "serviceable", **mine)["maintenance"]
    other = {**options, "image": maas.image("2"), "deploy_id": "62"}
    lead(other, "deployed")
    assert _awaited(maas, "deployed", other)["ok"] and maas.machine(options["name"]).distro_series == "gold-2"
    lead(other, "tested")
    assert _awaited(maas, "settled", other)["ok"]
    lead(other, "released", erase=True)
    assert _awaited(maas, "released", other)["ok"] and maas.native(options["name"]) == "Ready"


def test_erasing_is_asked_for_in_words_that_each_of_them_reads(maas: Any) -> None:
    """Until 3.4 how it is to erase makes nothing erase; from 3.5 on any of them does."""
    options = deployed(maas)
    with patched((maas.server.config.delays, "erase", 600.0)):
        lead({**options, "driver": {"quick_erase": True}}, "released", erase=True)
        assert maas.native(options["name"]) == "Disk erasing"
    [form] = [parse_qs(one.body.decode()) for one in maas.proxy.writes if "op=release" in one.query]
    assert form == {"erase": ["true"], "quick_erase": ["true"]}
    plain = deployed(maas)
    lead({**plain, "driver": {"quick_erase": True}}, "released")
    assert maas.native(plain["name"]) in ("Releasing", "Ready"), "nobody has asked for it"


def test_a_failure_is_told_with_what_the_record_has(maas: Any) -> None:
    """3.4 tells no error_description, and the last event."""
    options = {**ready(maas), "image": maas.image()}
    maas.server.jobs.faults[("deploy", options["name"])] = "curtin: no space left"
    try:
        lead(options, "deployed")
        verdict = _awaited(maas, "deployed", options)
    finally:
        maas.server.jobs.faults.clear()
    assert not verdict["ok"] and "Failed deployment: " in verdict["reason"] and "no reason" not in verdict["reason"]
    broken = ready(maas)
    maas.protect(broken["name"])
    maas.machine(broken["name"]).status_message = "Marked broken by Anna"
    with pytest.raises(NotOurs, match="marked broken: ..."):
        lead(broken, "deployed", image=maas.image())


def test_a_machine_is_entered_as_a_dpu_where_the_release_has_them(maas: Any) -> None:
    options = {**maas.new(), "driver": {"is_dpu": True}, "properties": {"cpu_arch": "aarch64"}}
    if maas.server.config.version >= "3.7":
        assert lead(options, "enrolled")["changed"] and maas.machine(options["name"]).is_dpu
        return
    for check in (True, False):
        with pytest.raises(Unsupported, match="knows no DPUs"):
            lead(options, "enrolled", check=check)
    assert maas.proxy.writes == []


CONTENT = bytes(range(250)) * 20


def half(maas: Any, came: int, regions: int) -> Any:
    """What MAAS tells of an image of which so many bytes have come."""
    version = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "size": len(CONTENT), "complete": False}
    version.update(held=CONTENT[:came], filename="root.tgz", filetype="root-tgz")
    image = {**maas.image(), "name": "half", "version": "7"}
    held = {"custom/half-7": {"architecture": "amd64", "versions": {"20261115.1": version}}}
    options = {**maas.new(), "image": image}
    changes = (("images", {**maas.server.config.images, **held}), ("regions", regions))
    with patched(*((maas.server.config, *one) for one in changes)), connected(options, Context()) as driver:
        wanted = of_task(options, driver.name, driver.image_needs, options["name"])
        assert wanted.image is not None
        return upload.stored(_api(maas), wanted, wanted.image)


@pytest.mark.parametrize("regions", [1, 3])
@pytest.mark.parametrize("came", [0, 1000, 2500])
def test_how_much_of_a_file_has_come_is_read_as_it_is_meant(maas: Any, regions: int, came: int) -> None:
    """Until 3.4 the whole size by what has come; a percentage of what all region controllers are to have since then."""
    found = half(maas, came, regions)
    assert (found.sent, found.size) == (came, len(CONTENT))


@pytest.mark.parametrize(
    ("progress", "no_share", "no_percentage"),
    [
        (5e-324, True, False),
        (1e-9, True, False),
        (-2.0, True, True),
        (1e300, False, True),
        (float("inf"), False, True),
        (float("nan"), True, True),
        ("much", True, True),
    ],
)
def test_a_progress_that_none_can_be_is_no_progress(
    maas: Any, progress: Any, no_share: bool, no_percentage: bool
) -> None:
    """Sending would go on at a byte that no file has. What is next to nothing is nothing."""
    wrong = no_percentage if versions.keeps_files_by_region(maas.server.config.version) else no_share
    with patched((versions, "progress", lambda *_told: progress)):
        if not wrong:
            assert half(maas, 1000, 1).sent == 0
            return
        with pytest.raises(BadAnswer, match="does not say how much of the image has come"):
            half(maas, 1000, 1)
