# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook migrate_provisioner, between provisioners as they are: one of both may boot the node, and never both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moving import Move
from pxe_files.site import PxeSite
from service_sites import IronicSite, MaasSite
from site_warewulf import WarewulfSite
from xcat_commands.site import XcatSite

pytestmark = pytest.mark.slow

PAIRS = (
    pytest.param(PxeSite, WarewulfSite, id="pxe-warewulf"),
    pytest.param(WarewulfSite, XcatSite, id="warewulf-xcat"),
    pytest.param(XcatSite, MaasSite, id="xcat-maas"),
    pytest.param(MaasSite, IronicSite, id="maas-ironic"),
    pytest.param(IronicSite, PxeSite, id="ironic-pxe"),
)


@pytest.fixture
def two(started: Any) -> Iterator[Any]:
    """Two sites in good health, while the test lasts."""
    with contextlib.ExitStack() as stack:
        yield lambda *kinds: [stack.enter_context(started(kind).in_good_health()) for kind in kinds]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_node_goes_from_one_to_another(old: Any, new: Any, two: Any, tmp_path: Path) -> None:
    move = Move(*two(old, new), tmp_path, deploy=True)
    foretold = move.play("--check")
    assert move.writes() == [] and move.events() == [], "check mode"
    assert move.look(move.new)[0] is None and f'"gpufleet_provisioner: {new.name}"' in foretold, foretold[-3000:]

    output = move.play()
    there, armed, _marks = move.look(move.new)
    assert there is not None and there.state in ("enrolled", "ready") and not there.maintenance, there
    here, armed, _marks = move.look(move.old)
    assert armed == "" and "+moved:to " + new.name in here.hold and here.state in ("enrolled", "ready"), here
    assert [name for name, _data in move.events()] == ["left", "moved"]
    told = move.events()[-1][1]
    assert told["from"]["provisioner"] == old.name and told["to"]["provisioner"] == new.name, told
    assert told["agrees"] and told["carried"]["serial"] == move.node["serial"], told
    assert f"gpufleet_provisioner: {new.name}" in told["inventory"] and "change the inventory" in output, output[-3000:]

    move.forget()
    again = move.play()
    assert "changed=0" in again and "changed=1" not in again and move.writes() == [], again[-3000:]
    assert [name for name, _data in move.events()] == ["left", "moved"]
