# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes in service day 2 takes: those that fail, and none of which nothing was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_day2_look import XID_79
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.trust.conftest import MANIFEST, Image
from contract.trust.test_adopted import Working, at_work

pytestmark = pytest.mark.slow

ALL = ("-e", "day2_recycle_all=true")
#: As what an alert launches.
FAULTS = ("-e", "day2_recycle_drift=false")


@pytest.fixture
def serving(tmp_path: Path, image: Image) -> Iterator[Working]:
    """gpu001 was brought up by us, is healthy, and serves."""
    with at_work(tmp_path, image) as working:
        working.recorded()
        working.told(*(("state", name, {}) for name in ("enrolled", "imaging", "admitted")))
        yield working


def diagnosed(working: Working, text: str) -> None:
    working.nodes.options["dcgm_gate"]["dcgmi"] = made.dcgmi(working.nodes.folder / "gates", text)


def lost_a_gpu(working: Working) -> None:
    nodes = working.nodes
    (nodes.folder / "lost").mkdir()
    lost = made.machine(nodes.folder / "lost", made.kmsg(XID_79, step=999.0))
    nodes.options["kernel_log_gate"].update({key: lost[key] for key in lost if key not in ("profile", "since")})


def test_q2_what_is_inconclusive_is_told_and_stops_the_host_alone(serving: Working, image: Image) -> None:
    nodes = serving.nodes
    image.artifact.write_bytes(b"what is deployed by none")
    told = nodes.book("day2_recycle", ok=True)
    assert not nodes.events("gpu001", "note"), told
    diagnosed(serving, "dcgmi: no such luck")
    told = nodes.book("day2_recycle", ok=False)
    [(name, data)] = nodes.events("gpu001", "note")
    assert name == "unseen" and "dcgm" in data["reason"].lower(), data
    assert nodes.scheduler("gpu001") == "IDLE" and not nodes.states("gpu001"), told
    assert "1 admitted; stopped at 1" in told and "Next: ansible-playbook gpufleet.baremetal.day2_recycle" in told, told
    nodes.book("day2_recycle", *ALL, ok=False)
    assert "draining" in nodes.states("gpu001"), "who asks for it gets it"


def test_q2_what_fails_is_taken_whatever_else_is_inconclusive(serving: Working) -> None:
    """Also where its next image has a fault, for which a healthy node would be left alone."""
    nodes = serving.nodes
    nodes.shared["gpufleet_image"] = {**nodes.shared["gpufleet_image"], "version": "9.9"}
    diagnosed(serving, "dcgmi: no such luck")
    lost_a_gpu(serving)
    told = nodes.book("day2_recycle", ok=False)
    [state, *_later] = nodes.events("gpu001", "state")
    assert state[0] == "draining" and "Xid 79" in state[1]["reason"] and "dcgm" not in state[1]["reason"].lower(), told


def test_q2_what_runs_another_image_serves_on_with_it_until_the_declared_one_can_be_deployed(
    serving: Working, image: Image
) -> None:
    """Declared and signed, and not at the provisioner yet: a mistake of the site had drained the fleet."""
    nodes = serving.nodes
    (image.folder / "hpc-1.4.manifest.json").write_text(json.dumps({**MANIFEST, "version": "1.5"}))
    image.publish()
    nodes.shared["gpufleet_image"] = image.declared(version="1.5")
    told = nodes.book("day2_recycle", ok=False)
    assert nodes.scheduler("gpu001") == "IDLE" and not nodes.states("gpu001"), told
    assert "hpc-1.5" in str(nodes.events("gpu001", "note")), told
    lost_a_gpu(serving)
    told = nodes.book("day2_recycle", ok=False)
    assert "draining" in nodes.states("gpu001"), f"what failed is taken out of service all the same: {told}"


@pytest.mark.parametrize("fault", ["a GPU is lost", "altered"])
def test_what_an_alert_launches_leaves_another_image_to_the_roll_out(
    serving: Working, image: Image, fault: str
) -> None:
    """It is declared of all as soon as somebody reads it in, and no person has approved it by then. What speaks against
    the node itself counts, whatever it runs."""
    nodes, newer = serving.nodes, {**MANIFEST, "version": "1.5"}
    (image.folder / "hpc-1.4.manifest.json").write_text(json.dumps(newer))
    image.publish()
    nodes.shared["gpufleet_image"] = image.declared(version="1.5")
    told = nodes.book("day2_recycle", *FAULTS, ok=True)
    [drifted] = [data for name, data in nodes.events("gpu001", "verdict") if name == "image_verify"]
    assert "other_image" in [one["id"] for one in drifted["findings"]], drifted
    assert nodes.scheduler("gpu001") == "IDLE" and not nodes.states("gpu001"), told
    if fault == "altered":
        altered = json.dumps({**newer, "built": "2026-02-02T00:00:00Z"})
        (nodes.folder / "node" / "manifest.json").write_text(altered, encoding="utf-8")
    else:
        lost_a_gpu(serving)
    told = nodes.book("day2_recycle", *FAULTS, ok=False)
    [state, *_later] = nodes.events("gpu001", "state")
    wanted = "is not the signed one" if fault == "altered" else "Xid 79"
    assert state[0] == "draining" and wanted in state[1]["reason"] and "another image" not in state[1]["reason"], told
