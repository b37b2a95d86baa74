# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hardware type of a site's own, which Ironic loads as it does its others: fake, with a step that sets the BIOS.

Of Ironic's own fake interfaces none has a step that can go with a deployment, and Ironic leaves out what cannot.
"""

from __future__ import annotations

from typing import Any

from ironic.drivers import base, fake_hardware
from ironic.drivers.modules import fake

NAME = "fake-steps"


class StepBIOS(fake.FakeBIOS):
    """What it is set to stands in Ironic's record of the BIOS."""

    @base.clean_step(priority=0, argsinfo={"settings": {"description": "names and values", "required": True}})
    @base.deploy_step(priority=0, argsinfo={"settings": {"description": "names and values", "required": True}})
    def apply_configuration(self, task: Any, settings: Any) -> None:
        super().apply_configuration(task, settings)


class StepHardware(fake_hardware.FakeHardware):
    """The rest of it is Ironic's fake hardware."""

    @property
    def supported_bios_interfaces(self) -> list[Any]:
        return [StepBIOS]
