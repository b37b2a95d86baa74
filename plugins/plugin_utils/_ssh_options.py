# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible's own SSH connection would tell OpenSSH of a host. PRIVATE to the collection.

Variables of the host say it, or the environment, or ansible.cfg: whoever reads the variables alone sees no jump host
that is set for all.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.plugins.loader import connection_loader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: Options of Ansible's connection that decide, and the variables by which a host says them.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "host_key_checking": ("ansible_host_key_checking", "ansible_ssh_host_key_checking"),
    "private_key_file": ("ansible_private_key_file", "ansible_ssh_private_key_file"),
    "ssh_args": ("ansible_ssh_args",),
    "ssh_common_args": ("ansible_ssh_common_args",),
    "ssh_extra_args": ("ansible_ssh_extra_args",),
    "host": ("ansible_host", "ansible_ssh_host"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "remote_user": ("ansible_user", "ansible_ssh_user"),
}
_ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args")


def options(host: str, variable: Callable[[str], Any]) -> dict[str, Any]:
    """As Ansible's own connection would have them for this host.

    :param variable: a variable of it; None where it is not set.
    :raises ConfigError: where Ansible would not take them.
    """
    connection_loader.get("ssh", class_only=True)  # so that Ansible knows its options
    said = {name: variable(name) for names in _OPTIONS.values() for name in names}
    given = {name: value for name, value in said.items() if value is not None}
    where = {"plugin_type": "connection", "plugin_name": "ssh", "variables": {"inventory_hostname": host, **given}}
    try:
        return {name: C.config.get_config_value(name, **where) for name in _OPTIONS}
    except AnsibleError as exc:
        raise ConfigError("Ansible does not take its options for SSH", seen=short(exc, 200), do="correct it") from exc


def words(found: Mapping[str, Any]) -> list[str]:
    """What of it leads OpenSSH to the host, without its port.

    :raises ConfigError: where they are no words.
    """
    try:
        argv = [word for name in _ARGUMENTS for word in shlex.split(str(found[name] or ""))]
    except ValueError as exc:
        do = "correct ansible_ssh_args, ansible_ssh_common_args or ansible_ssh_extra_args"
        raise ConfigError("the options of its SSH connection cannot be read", seen=str(exc), do=do) from exc
    return [*argv, *(["-l", str(found["remote_user"])] if found["remote_user"] else [])]
