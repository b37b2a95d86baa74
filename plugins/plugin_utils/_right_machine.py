# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node, and says something in its name, runs on no other machine. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

#: Where Linux shows what the firmware says of the machine.
_DMI = "/sys/class/dmi/id"


class OnItsMachine(VerbAction):
    """Base of actions that ask the machine who it is before they ask it anything else."""

    def _right_machine(self) -> None:
        """Before anything runs there: a verdict is one on the node only where the node is what answers.

        :raises WrongMachine: where it is another machine.
        :raises ConfigError: where nobody can tell.
        """
        node = self.node_id()
        proven = _machine.proven(self.ledger(), node, self.run_id)
        if proven is False:
            raise _machine.refused(self.ledger(), node, self._host)
        if proven is None:
            inventory = {key: self.host_var(f"gpufleet_{key}") for key in ("serial", "system_uuid")}
            folder = str(self._params.get("dmi_path") or _DMI)
            answer = self._low_level_execute_command(_machine.question(folder))
            machine = _machine.told(str(answer.get("stdout", "")), str(answer.get("stderr", "")))
            ours = _machine.known(self.ledger(), node, inventory)
            # A dry run has recorded no proof that there could be.
            _machine.demand(self._host, ours, machine, dry=bool(self._task.check_mode))
            _machine.not_of_another(self.ledger(), node, self._host, machine)
