# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies at MAAS to boot and deploy machines with, held against what is declared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import lead, ready


@pytest.fixture
def maas(maas_site: Any) -> Iterator[Any]:
    with maas_site.in_good_health():
        yield maas_site


def test_no_boot_image_yet(maas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maas.server.config, "architectures", ())
    monkeypatch.setattr(maas.server.config, "images", {})
    with pytest.raises(Refused, match="no boot image for amd64"):
        lead(maas.new(), "enrolled")
    assert maas.proxy.writes == []


def test_j7_a_look_at_a_machine_for_which_there_is_no_boot_image_goes_on_and_tells_so(
    maas: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that works is adopted before its owner has MAAS import anything; what deploys it stops there first."""
    monkeypatch.setattr(maas.server.config, "architectures", ("arm64",))
    monkeypatch.setattr(maas.server.config, "images", {})
    seen = lead(maas.new(), "enrolled", check=True, force_reason="adoption looks, and writes nothing")
    assert seen["before"]["state"] == "absent" and not seen["provisioner_id"], seen
    assert seen["undeployable"]["kind"] == "refused", seen
    assert "no boot image for amd64" in seen["undeployable"]["reason"] and "arm64" in seen["undeployable"]["reason"]
    assert maas.proxy.writes == []


def test_the_image_must_be_there_and_the_very_one(maas: Any) -> None:
    options = ready(maas)
    with pytest.raises(Refused, match="no image gold-9"):
        lead(options, "deployed", image={**maas.image(), "version": "9"})
    with pytest.raises(ConfigError, match="not the file that the inventory names"):
        lead(options, "deployed", image={**maas.image(), "sha256": "f" * 64})
    assert maas.proxy.writes == []


def test_v9_the_image_is_compared_once_more_right_before_the_order(maas: Any) -> None:
    """Between the judgement of a batch and the order of its last node somebody may upload another file."""
    options = ready(maas)
    image = Image.of({**maas.image(), "sha256": "f" * 64})
    driver = maas.driver(maas.connection(), Context(node=options["name"]))
    with contextlib.closing(driver), pytest.raises(ConfigError, match="not the file that the inventory names"):
        wanted = Wanted(host=options["name"], name=options["name"], image=image)
        driver.start("deploy", driver.find(wanted), wanted)
    assert maas.proxy.writes == []


def test_m1_the_image_is_that_of_the_machines_architecture(maas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """MAAS deploys the file of the machine's own, whatever else lies there under the same name."""
    options = {**maas.new(), "properties": {"cpu_arch": "aarch64"}}
    both = {**maas.server.config.images, "custom/gold-1": {"sha256": "a" * 64, "architecture": "arm64"}}
    monkeypatch.setattr(maas.server.config, "architectures", ("amd64", "arm64"))
    image = {**maas.image(), "sha256": "1" * 64}
    with pytest.raises(Refused, match="no image gold-1 for arm64.*Seen: one for amd64"):
        lead(options, "ready", image=image)
    monkeypatch.setattr(maas.server.config, "images", both)
    with pytest.raises(ConfigError, match=f"not the file that the inventory names.*Seen: {'a' * 64}"):
        lead(options, "ready", image=image)
    assert maas.proxy.writes == []
    lead(options, "ready", image={**image, "sha256": "a" * 64})
    known = {key: value for key, value in options.items() if key != "properties"}
    assert lead(known, "enrolled", check=True, image={**image, "sha256": "a" * 64})["undeployable"] == {}
    assert lead(known, "enrolled", check=True, image=image)["undeployable"]["kind"] == "config", "its record says arm64"


def test_m1_the_file_is_that_of_the_newest_version_that_is_there_whole(
    maas: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {
        "20261115.9": {"sha256": "9" * 64},
        "20261115.10": {"sha256": "a" * 64},
        "20261116": {"sha256": "b" * 64, "complete": False},
    }
    monkeypatch.setattr(maas.server.config, "images", {"gold-1": {"versions": versions}})
    options = maas.new()
    for digest, kind in (("9", "config"), ("b", "config"), ("a", "")):
        image = {**maas.image(), "sha256": digest * 64}
        assert lead(options, "enrolled", check=True, image=image)["undeployable"].get("kind", "") == kind, digest
