# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the main process loads for a verb before its workers fork: all that they need, and not what they do not.

The library of clouds.yaml is five hundred modules, half of what a run of one task loads.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = "import importlib, sys; importlib.import_module(sys.argv[1]); print('openstack.connection' in sys.modules)"


@pytest.mark.parametrize(
    ("action", "loads"),
    [("pxe_boot", False), ("redfish_power", False), ("provisioner_node", True), ("provisioner_image", True)],
)
def test_the_library_of_a_cloud_is_loaded_before_the_fork_where_one_may_be_asked(action: str, loads: bool) -> None:
    name = f"ansible_collections.gpufleet.baremetal.plugins.action.{action}"
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, name], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == str(loads)
