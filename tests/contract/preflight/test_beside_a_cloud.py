# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U8: what stands beside the cloud of an Ironic behind Keystone, and is read by nobody."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_settings as settings
from sound_site import SoundSite


def test_u8_an_address_and_a_login_beside_a_cloud_are_told_as_not_used(site: SoundSite) -> None:
    """The quick start prints them, and a person goes on to believe that they say where the nodes are."""
    site.shared.update(gpufleet_provisioner_cloud="site", gpufleet_provisioner_ca_path="")
    site.shared["gpufleet_provisioner_url"] = site.hosts["gpu001"]["gpufleet_provisioner_url"] = "https://a.example"
    [cause] = site.told(settings.look)
    assert (cause["kind"], cause["hosts"]) == ("note", ["gpu001", "gpu002", "gpu003"])
    assert "gpufleet_provisioner_url" in cause["what"] and "names the cloud site" in cause["what"]
    assert "ca_path" not in cause["what"], "that is empty"
    site.shared["gpufleet_provisioner"] = "maas"
    assert all("names the cloud" not in one["what"] for one in site.told(settings.look)), "it reads no clouds"
