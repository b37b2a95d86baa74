# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine in a folder, asked over its connection: what it tells of itself lies there, and not in this host's DMI."""

from __future__ import annotations

from typing import Any

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: at_machine
short_description: a machine in a folder
description: Runs commands here, with the folder's DMI and the folder's nvidia-smi.
options:
  machine_folder:
    description: The folder.
    type: str
    vars:
      - name: machine_folder
"""


class Connection(Local):
    transport = "at_machine"

    def exec_command(self, cmd: str, *args: Any, **more: Any) -> Any:
        folder = self.get_option("machine_folder")
        at_machine = cmd.replace("/sys/class/dmi/id", f"{folder}/dmi").replace(" nvidia-smi ", f" {folder}/nvidia-smi ")
        return super().exec_command(at_machine, *args, **more)
