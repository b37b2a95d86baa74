# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Will a node be reached over SSH once it is imaged? Its key file, and whether its host key is known. PRIVATE.

Nothing is connected to: before day 0 there is nobody to answer. What OpenSSH would do it says itself (``ssh -G``).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.plugins.loader import connection_loader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import SITE, Cause
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

CHECK = "ssh"
_SECONDS = 20
#: Options of Ansible's connection that decide, and the variables by which a host says them.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "host_key_checking": ("ansible_host_key_checking", "ansible_ssh_host_key_checking"),
    "private_key_file": ("ansible_private_key_file", "ansible_ssh_private_key_file"),
    "ssh_args": ("ansible_ssh_args",),
    "ssh_common_args": ("ansible_ssh_common_args",),
    "ssh_extra_args": ("ansible_ssh_extra_args",),
    "host": ("ansible_host", "ansible_ssh_host"),
    "port": ("ansible_port", "ansible_ssh_port"),
}
_ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args")
#: With one of these OpenSSH refuses a host whose key it does not know, where nobody can be asked.
_STRICT = frozenset({"ask", "true", "yes"})
_KNOWN_FILES = ("userknownhostsfile", "globalknownhostsfile")


def look(batch: Batch) -> None:
    hosts = [host for host in batch.hosts if batch.text(host, "ansible_connection") in ("", "ssh", "smart")]
    if not hosts:
        return
    if not (shutil.which("ssh") and shutil.which("ssh-keygen")):
        do = "install openssh-client on the machine that runs Ansible"
        batch.tell(hosts, Cause(CHECK, SITE, "the commands ssh and ssh-keygen are not installed", do=do))
        return
    connection_loader.get("ssh", class_only=True)  # so that Ansible knows its options
    asked: dict[str, dict[str, Any]] = {}
    for host in hosts:
        batch.try_for([host], CHECK, lambda one: asked.update({one: _options(batch, one)}), host)
    for path, its in batch.alike(asked, lambda host: str(asked[host]["private_key_file"] or "")).values():
        batch.try_for(its, CHECK, _key_file, path)
    # Without it Ansible tells OpenSSH to check nothing.
    checked = {host: one for host, one in asked.items() if one["host_key_checking"]}
    batch.each(CHECK, checked, lambda host, one: _known(one))


def _options(batch: Batch, host: str) -> dict[str, Any]:
    """As Ansible's own connection would have them for this host."""
    said = {name: batch.value(host, name) for names in _OPTIONS.values() for name in names}
    given = {name: value for name, value in said.items() if value is not None}
    where = {"plugin_type": "connection", "plugin_name": "ssh", "variables": {"inventory_hostname": host, **given}}
    try:
        return {name: C.config.get_config_value(name, **where) for name in _OPTIONS}
    except AnsibleError as exc:
        raise ConfigError("Ansible does not take its options for SSH", seen=short(exc, 200), do="correct it") from exc


def _key_file(path: str) -> None:
    """:raises ConfigError: where OpenSSH would not take it."""
    if not path:
        return
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode
    except OSError as exc:
        do = "correct ansible_ssh_private_key_file"
        raise ConfigError(f"the key for SSH cannot be read: {exc.strerror}", wanted=path, do=do) from exc
    if mode & 0o077:
        raise ConfigError("the key for SSH may be read by others, and OpenSSH takes none such", seen=path,
                          do=f"chmod 600 {path}")  # fmt: skip


def _known(one: Mapping[str, Any]) -> None:
    """:raises ConfigError: where OpenSSH would refuse this host, whatever key it shows."""
    settings = _settings(one)
    if settings.get("stricthostkeychecking") not in _STRICT or settings.get("knownhostscommand", "none") != "none":
        return
    if settings.get("verifyhostkeydns") in ("true", "yes"):
        return
    name = settings.get("hostkeyalias") or settings.get("hostname") or str(one["host"])
    port = settings.get("port", "22")
    named = name if port == "22" or settings.get("hostkeyalias") else f"[{name}]:{port}"
    files = [Path(file).expanduser() for key in _KNOWN_FILES for file in settings.get(key, "").split()]
    if any(_holds(file, named) for file in files if file.is_file()):
        return
    raise ConfigError(
        "nobody here knows the node's host key: once it is imaged, no connection to it is made",
        wanted=f"a line for {named} in a file of known hosts",
        do="let the image carry host certificates and name their CA (@cert-authority) in known_hosts, or its keys; see"
        " docs/how-to/host-keys.md",
    )


def _settings(one: Mapping[str, Any]) -> dict[str, str]:
    """What OpenSSH would go by, in its own words."""
    argv = [word for name in _ARGUMENTS for word in shlex.split(str(one[name] or ""))]
    argv += ["-p", str(one["port"])] if one["port"] else []
    done = _run("ssh", *argv, "-G", str(one["host"]))
    if done.returncode != 0:
        do = "correct ansible_ssh_args, ansible_ssh_common_args or ansible_ssh_extra_args"
        raise ConfigError("OpenSSH does not take its options", seen=short(done.stderr, 200), do=do)
    return {key: value for key, _blank, value in (line.partition(" ") for line in done.stdout.splitlines())}


def _holds(file: Path, name: str) -> bool:
    return _run("ssh-keygen", "-F", name, "-f", str(file)).returncode == 0


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
    )
