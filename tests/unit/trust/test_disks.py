# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which block device a file is, or lies on."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.disks import number_of


@pytest.mark.parametrize(
    ("kind", "number"), [(stat.S_IFBLK, "259:3"), (stat.S_IFREG, "0:5"), (stat.S_IFCHR, "0:5"), (stat.S_IFDIR, "0:5")]
)
def test_c1_a_block_device_is_itself_and_not_what_its_node_lies_on(kind: int, number: str) -> None:
    """/dev is a file system of its own, on no disk."""
    found = os.stat_result((kind | 0o600, 7, os.makedev(0, 5), *[0] * 7), {"st_rdev": os.makedev(259, 3)})
    assert number_of(found) == number
