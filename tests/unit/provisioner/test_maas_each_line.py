# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a MAAS machine runs what is wanted, by its record alone."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import DEPLOYED, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.driver import MaasDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

IMAGE = {"name": "hpc", "version": "1.4", "url": "http://x/hpc", "sha256": "a" * 64}


def current(runs: str, noted: dict[str, Any] | None, *, redeploy: bool = False, **image: Any) -> bool:
    """``noted``: the image that a deploy of ours noted, None where somebody else deployed the machine."""
    driver = MaasDriver({"provisioner_url": "http://127.0.0.1:9/MAAS", "provisioner_api_key": "a:b:c"}, Context())
    wanted = Wanted(host="n1", image=Image.of({**IMAGE, **image}), redeploy=redeploy)
    note = Image.of({**IMAGE, **noted}) if noted is not None else None
    raw = {
        "osystem": "custom",
        "distro_series": runs,
        "workload_annotations": dict(record.notes(note)) if note else {},
    }
    node = NodeState(id="abc123", name="n1", native="Deployed", state=DEPLOYED, raw=raw)
    return driver.facts(node, wanted)["image_current"]


def test_t1_a_machine_runs_what_was_noted_with_its_deployment() -> None:
    assert current("hpc-1.4", {"deploy_id": "d1"}, deploy_id="d1")
    assert current("hpc-1.4", None)


@pytest.mark.parametrize(
    ("runs", "noted", "wanted"),
    [
        ("hpc-1.4", {"deploy_id": "d1"}, {"deploy_id": "d2"}),
        ("hpc-1.4", {}, {"deploy_id": "d2"}),
        ("hpc-1.4", None, {"deploy_id": "d2"}),
        ("hpc-1.4", {"sha256": "b" * 64}, {}),
        ("hpc-1.4", {"url": "http://other/hpc"}, {}),
        ("hpc-1.3", {}, {}),
        ("", {}, {}),
    ],
)
def test_t1_a_machine_with_another_note_or_image_is_deployed_anew(runs: str, noted: Any, wanted: Any) -> None:
    assert not current(runs, noted, **wanted)


def test_t1_a_redeployment_is_one_whatever_runs() -> None:
    assert not current("hpc-1.4", {}, redeploy=True)
