# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file on its way to MAAS: in pieces, gone on with, told from another one, and never more of it than was verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    Refused,
    TrustError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import image as images
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import upload
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line
from served import Served

CONTENT = bytes(range(256)) * 24
PIECE = 1024


class Beats(Line):
    """Dies once so many pieces have come."""

    def __init__(self, site: Any, count: int) -> None:
        super().__init__()
        self._site, self._count = site, count

    def beat(self) -> None:
        if len(pieces(self._site)) >= self._count:
            raise Killed


@pytest.fixture
def maas(maas_site: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(upload, "PIECE", PIECE)
    monkeypatch.setattr(images, "INTERVAL", 0.05)
    with maas_site.in_good_health():
        kept = dict(maas_site.server.config.images)
        yield maas_site
        config = maas_site.server.config
        config.images, config.regions, config.syncs = kept, 1, True


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


def bring(site: Any, image: dict[str, Any], line: Optional[Line] = None, **more: Any) -> dict[str, Any]:
    ctx = Context(node="gpu001", lifeline=line)
    return images.image({**site.connection(), "image": image, "timeout": 2.0, **more}, ctx).as_dict(ctx)


def new(site: Any, web: Served, name: str = "/gold.tar.gz") -> dict[str, Any]:
    found: dict[str, Any] = site.new_image(web.put(name, CONTENT), CONTENT)
    return found


def held(site: Any, image: dict[str, Any]) -> dict[str, Any]:
    [found] = site.server.config.images[f"custom/gold-{image['version']}"]["versions"].values()
    return dict(found)


def pieces(site: Any) -> list[int]:
    return [len(one.body) for one in site.faults.writes if one.what.startswith("PUT")]


@pytest.mark.parametrize("regions", [1, 3])
def test_it_goes_on_where_it_was_killed(maas: Any, web: Served, regions: int) -> None:
    maas.server.config.regions = regions
    image = new(maas, web)
    with pytest.raises(Killed):
        bring(maas, image, Beats(maas, 4))
    sent = len(held(maas, image)["held"])
    assert 0 < sent < len(CONTENT) and sent % PIECE == 0
    maas.faults.forget()
    done = bring(maas, image)
    assert done["before"] == {"state": "partial", "name": done["name"], "sha256": image["sha256"], "sent": sent}
    assert sum(pieces(maas)) == len(CONTENT) - sent, "nothing is sent twice"
    assert held(maas, image)["held"] == CONTENT and done["sha256"] == image["sha256"]


def test_of_a_piece_that_has_come_in_part_the_rest_is_sent(maas: Any, web: Served) -> None:
    """By a version of ours whose pieces were smaller, or by hand."""
    image = new(maas, web)
    with pytest.raises(Killed):
        bring(maas, image, Beats(maas, 2))
    [file] = maas.server.config.images[f"custom/gold-{image['version']}"]["versions"].values()
    file["held"] = CONTENT[: len(file["held"]) + 100]
    maas.faults.forget()
    bring(maas, image)
    assert held(maas, image)["held"] == CONTENT and pieces(maas)[0] == PIECE - 100
    assert sum(pieces(maas)) == len(CONTENT) - 2 * PIECE - 100, "nothing is sent twice"


def test_each_piece_is_of_one_size_and_read_back(maas: Any, web: Served) -> None:
    image = new(maas, web)
    bring(maas, image)
    assert pieces(maas) == [PIECE] * (len(CONTENT) // PIECE)
    assert [one["filetype"] for one in [held(maas, image)]] == ["root-tgz"]


def test_a_second_uploader_is_noticed_before_the_file_is_spoilt(maas: Any, web: Served) -> None:
    """Another controller goes on with the same file: their pieces would come one over the other."""
    image = new(maas, web)
    with pytest.raises(Killed):
        bring(maas, image, Beats(maas, 3))
    server, seen = maas.server, []

    def beside(asked: Any) -> None:
        if asked.method == "PUT":
            seen.append(asked)
        if asked.method == "PUT" and len(seen) == 2:
            file = server.config.images[f"custom/gold-{image['version']}"]["versions"]
            [one] = file.values()
            one["held"] += CONTENT[len(one["held"]) :][:100]

    server.intercept = beside
    try:
        with pytest.raises(Changed, match="is not where it was left"):
            bring(maas, image)
    finally:
        server.intercept = None
    assert len(seen) == 2, "no piece after that"


def test_what_its_address_leads_to_now_is_not_sent_whole(maas: Any, web: Served) -> None:
    """It was verified, and another file lies there since."""
    image = new(maas, web)
    web.put("/gold.tar.gz", b"x" + CONTENT[1:])
    with pytest.raises(TrustError, match="another file than the one that was verified"):
        bring(maas, image)
    assert not held(maas, image)["complete"] and len(held(maas, image)["held"]) < len(CONTENT)
    web.put("/gold.tar.gz", CONTENT)
    # What came of the other one is there, which MAAS tells once all has come: it is announced anew, and sent again.
    assert bring(maas, image)["changed"] and held(maas, image)["held"] == CONTENT


def test_a_file_of_another_size_is_not_gone_on_with(maas: Any, web: Served) -> None:
    image = new(maas, web)
    with pytest.raises(Killed):
        bring(maas, image, Beats(maas, 2))
    web.put("/gold.tar.gz", CONTENT + b"more")
    with pytest.raises(ConfigError, match="another size"):
        bring(maas, image)


def test_of_a_file_of_unknown_size_nothing_is_announced(maas: Any, web: Served) -> None:
    image = new(maas, web)
    web.sizes = False
    try:
        with pytest.raises(FleetError, match="how large it is"):
            bring(maas, image)
    finally:
        web.sizes = True
    assert maas.faults.writes == []


def test_each_architecture_has_a_file_of_its_own(maas: Any, web: Served) -> None:
    image = new(maas, web)
    arm = {**image, "url": web.put("/arm.tar.xz", CONTENT * 2), "sha256": hashlib.sha256(CONTENT * 2).hexdigest()}
    assert bring(maas, image)["changed"]
    done = bring(maas, arm, properties={"cpu_arch": "aarch64"})
    assert done["changed"] and done["sha256"] == arm["sha256"]
    assert not bring(maas, image)["changed"], "the other one is there as it was"
    kinds = [one.get("architecture") for key, one in maas.server.config.images.items() if image["version"] in key]
    assert sorted(kinds) == ["amd64", "arm64"]
    with pytest.raises(Refused, match="not a valid architecture"):
        bring(maas, new(maas, web), properties={"cpu_arch": "riscv64/generic"})


@pytest.mark.parametrize(
    ("name", "format", "driver", "filetype"),
    [
        ("/a.tar.xz", "ramdisk", {}, "root-txz"),
        ("/a.raw", "whole-disk", {}, "root-dd.raw"),
        ("/a.img.xz", "whole-disk", {}, "root-dd.xz"),
        ("/a.bin", "whole-disk", {"filetype": "ddgz", "base_image": "ubuntu/jammy"}, "root-dd.gz"),
    ],
)
def test_maas_is_told_what_kind_of_file_it_is(
    maas: Any, web: Served, name: str, format: str, driver: dict[str, str], filetype: str
) -> None:
    image = {**new(maas, web, name), "format": format}
    bring(maas, image, driver=driver)
    assert held(maas, image)["filetype"] == filetype
    told = maas.server.config.images[f"custom/gold-{image['version']}"]["base_image"]
    assert told == driver.get("base_image", "ubuntu/noble")


def test_a_file_of_an_unknown_kind_is_asked_for(maas: Any, web: Served) -> None:
    with pytest.raises(ConfigError, match=r"ends with one of .*Seen: a\.bin.*filetype"):
        bring(maas, new(maas, web, "/a.bin"))
    assert maas.faults.writes == []


def test_one_that_another_person_has_begun_under_its_name_is_left(maas: Any, web: Served) -> None:
    image = new(maas, web)
    with pytest.raises(Killed):
        bring(maas, image, Beats(maas, 2))
    other = {**image, "sha256": "d" * 64}
    maas.faults.forget()
    with pytest.raises(ConfigError, match="announced and not whole"):
        bring(maas, other)
    assert maas.faults.writes == []


def test_a_whole_file_beside_an_announced_one_is_there(maas: Any, web: Served) -> None:
    image = new(maas, web)
    versions = {
        "20261115.1": {"sha256": image["sha256"]},
        "20261116": {"sha256": "b" * 64, "complete": False, "size": 9},
    }
    maas.server.config.images[f"custom/gold-{image['version']}"] = {"versions": versions}
    assert not bring(maas, image)["changed"], "MAAS deploys the whole one"


def test_a_file_that_does_not_reach_all_region_controllers_is_waited_for(maas: Any, web: Served) -> None:
    maas.server.config.syncs = False
    with pytest.raises(DeadlineExceeded, match="bytes have come"):
        bring(maas, new(maas, web), timeout=0.3)


def test_who_is_no_administrator_uploads_nothing(maas: Any, web: Served) -> None:
    with pytest.raises(Refused, match="reserved for admin"):
        bring(maas, new(maas, web), provisioner_api_key="tenant:token:other")


def test_a_piece_whose_answer_is_lost_came_or_did_not(maas: Any, web: Served) -> None:
    image = new(maas, web)
    maas.faults.lose_answer(4)
    with pytest.raises(Unreachable):
        bring(maas, image)
    maas.faults.forget()
    bring(maas, image)
    assert held(maas, image)["held"] == CONTENT
