# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After day 2 with a fault: that node is out of service with the finding as its reason, the others were left alone."""

from __future__ import annotations

import pytest

FAULTY = "gpu003"
OURS = "gpufleet:"


@pytest.fixture(autouse=True)
def _the_faulty_one(request, node):
    of_the_faulty = "others" not in request.node.name
    if (node["inventory_hostname"] == FAULTY) != of_the_faulty:
        pytest.skip("another node's test")


def test_slurm_keeps_the_node_drained_for_the_finding(slurm):
    state, reason = slurm
    assert state == "drained"
    assert reason.startswith(OURS) and "quarantined" in reason and "Xid 79" in reason and "remedy" in reason


def test_the_ledger_names_finding_and_remedy(states):
    name, data = states[-1]
    assert name == "quarantined" and "Xid 79" in data["reason"]
    assert data["remedy"] not in ("", "none")


def test_it_went_through_every_stage_before(states):
    names = [name for name, _data in states]
    assert names[names.index("admitted") + 1 :] == ["draining", "drained", "imaging", "validating", "quarantined"]


def test_the_disk_is_the_images_own_again(host):
    assert not host.file("/opt/left-behind").exists
    assert host.file("/etc/gpufleet/manifest.json").exists


def test_the_fault_is_told_by_the_new_boot_as_well(host):
    assert host.run("grep -q 'Xid.*: 79' /dev/kmsg").rc == 0


def test_the_others_were_left_alone(states, slurm):
    assert states[-1][0] == "admitted"
    assert [name for name, _data in states].count("imaging") == 1
    assert "quarantined" not in slurm[1]
