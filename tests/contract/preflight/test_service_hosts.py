# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U8: a host on which commands of the site's services run is no node, and no run goes on over one."""

from __future__ import annotations

import json

import pytest
import yaml
from sound_site import SoundSite
from test_settings import ALL, PEERS, SITE

pytestmark = pytest.mark.slow


def test_u8_a_login_host_is_no_node_and_a_run_over_it_is_stopped_before_anything(site: SoundSite) -> None:
    """Its BMC is not asked for: who then gives it makes the provisioner's own machine one to be imaged."""
    site.shared["gpufleet_provisioner_login_host"] = "mn1"
    site.hosts["mn1"] = {}
    told = site.book(ok=False, skip=PEERS)
    [cause] = [one for one in told["findings"] if "mn1" in one["hosts"]]
    assert (cause["kind"], cause["hosts"]) == (SITE, ["mn1"]) and "gpufleet_services" in cause["do"], cause
    assert "gpufleet_provisioner_login_host names, and no node" in cause["what"]


def test_u8_playbooks_leave_out_the_group_of_services(site: SoundSite) -> None:
    site.shared["gpufleet_provisioner_login_host"] = "mn1"
    (site.folder / "services.yml").write_text(
        yaml.safe_dump({"all": {"children": {"gpufleet_services": {"hosts": {"mn1": {}}}}}}), encoding="utf-8"
    )
    told = site.book("-i", "services.yml", ok=True, skip=PEERS)
    assert sorted(told["nodes"]) == ALL and "mn1" not in json.dumps(told), told["lines"]
    site.hosts.clear()
    site.results("preflight", "-i", "services.yml", ok=False)
    assert "The inventory has no host" in " ".join(site.output.split()), "its source failed"
