# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict on the declared image serves for no other bytes: by both verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from calls import await_all, lead, ready
from other_bytes import ELSEWHERE, OTHERS


@pytest.mark.parametrize(("kind", "driver", "lacks"), OTHERS)
def test_v9_a_verified_image_lets_nothing_else_be_deployed(
    request: pytest.FixtureRequest, kind: str, driver: Mapping[str, Any], lacks: tuple[str, ...]
) -> None:
    site = request.getfixturevalue(kind)
    image = {key: value for key, value in site.image().items() if key not in lacks}
    options = {**ready(site), "image": image, "driver": {**site.extras, **driver}}
    with pytest.raises(ConfigError, match="is not what image_verify has verified") as caught:
        lead(options, "deployed", image_verified=True)
    assert str(next(iter(driver.get("instance_info", driver)), "sha256")) in caught.value.seen
    batch = {"host": options["name"], "image_verified": True, "image": image, "boot_mac": options["boot_mac"]}
    verdict = await_all(site, "deployed", options, nodes=[batch], driver=options["driver"])["verdicts"]
    assert "is not what image_verify has verified" in verdict[options["name"]]["reason"]
    assert site.faults.writes == []
    lead(options, "deployed", image_verified=None)
    assert site.deployments() == 1 and await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]


@pytest.mark.parametrize("empty", ["", None])
def test_v9_an_empty_series_compares_nothing_less(maas_site: Any, empty: Any) -> None:
    image = {**maas_site.image(), "sha256": "f" * 64}
    options = {**ready(maas_site), "image": image, "driver": {"distro_series": empty}, "image_verified": True}
    with pytest.raises(ConfigError, match="not the file that the inventory names"):
        lead(options, "deployed")
    assert maas_site.faults.writes == []
    lead({**options, "image": maas_site.image()}, "deployed")
    assert maas_site.deployments() == 1


@pytest.mark.slow
def test_v9_what_a_tenant_wrote_beside_the_image_is_found_and_taken_away(ironic_site: Any) -> None:
    """A lessee may write instance_info: the command line of the verified kernel, and what cloud-init runs as root."""
    site = ironic_site
    options = {**ready(site), "image": site.image()}
    lead(options, "deployed")
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert not lead(options, "deployed", image_verified=True)["changed"]
    theirs = {"ramdisk_kernel_arguments": f"root=live:{ELSEWHERE}", "configdrive": ELSEWHERE, "anything": "else"}
    body = [{"op": "add", "path": f"/instance_info/{key}", "value": value} for key, value in theirs.items()]
    site.ask("PATCH", f"/nodes/{options['name']}", body=body)
    assert lead(options, "deployed", image_verified=True)["changed"], "the image does not run as it was verified"
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    left = site.ask("GET", f"/nodes/{options['name']}")["instance_info"]
    assert not theirs.keys() & left.keys(), left


@pytest.mark.slow
def test_v9_what_was_forced_onto_an_ironic_node_does_not_stay_beside_the_image(ironic_site: Any) -> None:
    site = ironic_site
    plain = {**ready(site), "image": site.image()}
    forced = {**plain, "driver": {**site.extras, "instance_info": {"boot_iso": ELSEWHERE}}}
    lead(forced, "deployed")
    assert await_all(site, "deployed", forced)["verdicts"][plain["name"]]["ok"]
    assert lead(plain, "deployed", image_verified=True)["changed"], "another thing was booted than the image"
    assert await_all(site, "deployed", plain)["verdicts"][plain["name"]]["ok"]
    assert "boot_iso" not in site.ask("GET", f"/nodes/{plain['name']}")["instance_info"]
