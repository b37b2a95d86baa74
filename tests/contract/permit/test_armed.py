# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network boot that failed leaves no machine armed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract.permit.rig import Controller
from fake_bmc.redfish_server import FakeBmc
from fake_bmc.sessions import error


@pytest.mark.parametrize("refused", [False, True])
def test_j8_a_network_boot_that_fails_disarms(controller: Callable[..., Controller], refused: bool) -> None:
    """The machine is off and its BMC takes the override and refuses to switch it on; or takes nothing back either."""
    site = controller()
    bmc = site.bmcs["gpu001"]
    bmc.machine.reset("ForceOff")
    bmc.reset = _refuses(bmc, refused)
    failed = site.run("pxe_boot", power="on", timeout=5.0)
    assert failed["failed"], failed
    armed = bmc.machine.override["enabled"] == "Once"
    assert armed is refused and ("may still stand" in failed["msg"]) is refused, (failed, bmc.machine.override)


def _refuses(bmc: FakeBmc, also_patches: bool) -> Callable[..., None]:
    def reset(name: str, body: object) -> None:
        if also_patches:
            bmc.faults["refuse"] = (400, "Base.1.8.GeneralError", "no")
        raise error(400, "Base.1.8.GeneralError", "no")

    return reset
