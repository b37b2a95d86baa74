# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What day 0 leaves behind, asked of each node itself and of Slurm."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

RACK = Path(os.environ.get("GPUFLEET_RACK_DIR", "/var/lib/gpufleet-rack"))
MANIFEST = "/etc/gpufleet/manifest.json"


@pytest.fixture
def variables(host):
    return host.ansible.get_variables()


def test_the_node_runs_the_declared_image(host, variables):
    manifest = json.loads(host.file(MANIFEST).content_string)
    declared = variables["gpufleet_image"]
    assert (manifest["name"], manifest["version"]) == (declared["name"], declared["version"])
    assert manifest["kernel"] == host.check_output("uname -r")


def test_the_node_is_the_machine_that_the_inventory_says(host, variables):
    assert host.file("/sys/class/dmi/id/product_serial").content_string.strip() == variables["gpufleet_serial"]


def test_slurm_gives_the_node_work(variables):
    command = ["sinfo", "-h", "-n", variables["gpufleet_scheduler_node"], "-o", "%T"]
    environment = {**os.environ, "SLURM_CONF": str(RACK / "slurm" / "slurm.conf")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["idle"]
