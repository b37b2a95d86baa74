# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host in which a DPU is, out of the inventory. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from ansible.module_utils.common.validation import check_type_dict
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import own_extras
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

#: What a site says of a host to its provisioner's driver, whatever the task is.
_SAID = "enroll_driver"
#: Of the option ``driver``: the machine that a DPU is in.
_WITHIN = "dpu_host"


def within(driver: Any, provisioner: str, hosts: Collection[str]) -> str:
    """The host of that machine; empty where none is named. A DPU is its network card: its jobs end with that.

    :param driver: the option of a task. :param hosts: of the inventory.
    :raises ConfigError: where none of them has that name: whether it works the ledger could not tell.
    """
    named = str(own_extras({"driver": driver}, provisioner).get(_WITHIN) or "")
    if not named or named in hosts:
        return named
    raise ConfigError(
        "a DPU is led on while no job runs on the machine that it is in, and no host has that name",
        wanted=f"{_WITHIN} in the option driver: a host of the inventory, by its name there",
        seen=named,
        do=f"correct {_WITHIN}, or add that machine to the inventory; nothing was changed",
    )


def taken_along(door: VerbAction, provisioner: Any, driver: Any = None) -> dict[str, str]:
    """The ledger's id of the machine that this host is the DPU of, by its host; empty for one that is no DPU.

    :param driver: the option of the task. Where it has none, or says nothing by it, the host's own variable does.
    """
    said = driver or door.host_var(_SAID) or {}
    with suppress(TypeError):  # as an option is read; what is none is told
        said = check_type_dict(said)
    there = within(said, str(provisioner or ""), door._vars.get("hostvars") or {})
    return {there: door.node_id(there, create=False)} if there else {}


class PastProvisioner(VerbAction):
    """A verb that goes to the BMC past the provisioner: what its machine takes down with it goes the same way."""

    PAST_PROVISIONER = True

    def along(self, hosts: Sequence[str]) -> dict[str, str]:
        return taken_along(self, self.host_var("gpufleet_provisioner"))
