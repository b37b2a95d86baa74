# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What day 0 leaves behind, asked of each node itself and of Slurm."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

RACK = Path(os.environ.get("GPUFLEET_RACK_DIR", "/var/lib/gpufleet-rack"))
MANIFEST = "/etc/gpufleet/manifest.json"


@pytest.fixture
def variables(host):
    return host.ansible.get_variables()


def asked(url, username, secret, context=None):
    """The answer of a service that takes HTTP Basic."""
    password = (RACK / "secrets" / secret).read_text(encoding="utf-8").strip()
    login = base64.b64encode(f"{username}:{password}".encode()).decode()
    # Ironic knows names from 1.5 on
    headers = {"Authorization": f"Basic {login}", "X-OpenStack-Ironic-API-Version": "1.80"}
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(request, timeout=20) as answer:
        return json.load(answer)


def test_the_bmc_has_this_machine_on(variables):
    """What oob_ready proved, asked again."""
    if variables["gpufleet_bmc_protocol"] != "redfish":
        pytest.skip("no Redfish")
    url = variables["gpufleet_bmc_address"] + variables["gpufleet_bmc_system_id"]
    trust = ssl.create_default_context(cafile=variables["gpufleet_bmc_ca_path"])
    system = asked(url, variables["gpufleet_bmc_username"], "bmc_password", trust)
    assert (system["SerialNumber"], system["PowerState"]) == (variables["gpufleet_serial"], "On")


def test_the_provisioner_has_the_node_active(variables):
    """What enroll and deploy are for."""
    url = f"{variables['gpufleet_provisioner_url']}/v1/nodes/{variables['inventory_hostname']}"
    node = asked(url, variables["gpufleet_provisioner_username"], "ironic_password")
    assert (node["provision_state"], node["maintenance"]) == ("active", False)


def test_the_node_runs_the_declared_image(host, variables):
    """What baseline proved, asked again."""
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
