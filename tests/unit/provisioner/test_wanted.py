# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a node: its image, and its entry in a batch."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, of_batch, of_task

IMAGE = {"name": "hpc", "version": "1.4", "url": "http://x/hpc", "sha256": "a" * 64}


@pytest.mark.parametrize("key", ["name", "version", "url", "sha256", "deploy_id"])
def test_t1_a_note_of_another_image_or_deployment_is_not_of_this_one(key: str) -> None:
    image = Image.of({**IMAGE, "deploy_id": "d1"})
    assert image is not None and image.is_noted(image.identity())
    assert not image.is_noted({**image.identity(), key: "other"})
    assert not image.is_noted({name: value for name, value in image.identity().items() if name != key})


def test_t1_an_entry_of_a_batch_is_read_whole() -> None:
    item = {"host": "n1", "serial": "S1", "boot_mac": "m", "known_runs": ["r1"], "image": IMAGE, "deploy_id": "d1"}
    for erase in (True, False):
        found = of_batch(item, {"erase": erase, "run_id": "r2"}, "memory", ("name", "version", "url"))
        assert found.runs == frozenset({"r1"}) and found.run == "r2" and found.erase is erase
        assert found.image is not None and found.image.deploy_id == "d1"
    assert of_batch({"host": "n1"}, {}, "memory", ()).runs is None


def test_only_what_is_asked_for_work_is_told_as_work() -> None:
    for state in names.STATES:
        params = {"name": "n1", "state": state}
        assert of_task(params, "memory", (), "n1").work == (state in names.WORKS)
    assert not of_batch({"host": "n1"}, {"until": "settled"}, "memory", ()).work


@pytest.mark.parametrize("driver", ["owners=x", '{"owners": ["x"]}', ["owners"], {"ironic": "owners"}])
def test_what_is_said_to_a_driver_and_is_no_mapping_is_that_host_s_own_fault(driver: Any) -> None:
    found = of_batch({"host": "n1", "driver": driver}, {}, "ironic", ())
    assert found.unread is not None and "no mapping" in str(found.unread) and found.extras == {}
    with pytest.raises(ConfigError, match="no mapping"):
        of_task({"name": "n1", "driver": driver}, "ironic", (), "n1")
    assert of_batch({"host": "n1", "driver": {}}, {}, "ironic", ()).unread is None


@pytest.mark.parametrize("key", ["name", "version", "url"])
def test_t1_an_image_has_all_that_its_driver_needs(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Image.of({name: value for name, value in IMAGE.items() if name != key}, needs=("name", "version", "url"))
