# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Will a node be reached over SSH once it is imaged? Its key file, and whether its host key is known. PRIVATE.

Nothing is connected to: before day 0 there is nobody to answer. What OpenSSH would do it says itself (``ssh -G``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node import openssh
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _ssh_options as ssh_options
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import SITE, Cause
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

CHECK = "ssh"
_SECONDS = 20
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
    asked: dict[str, dict[str, Any]] = {}
    for host in hosts:
        batch.try_for([host], CHECK, lambda one: asked.update({one: _options(batch, one)}), host)
    for path, its in batch.alike(asked, lambda host: str(asked[host]["private_key_file"] or "")).values():
        batch.try_for(its, CHECK, _key_file, path)
    # Without it Ansible tells OpenSSH to check nothing.
    checked = {host: one for host, one in asked.items() if one["host_key_checking"]}
    batch.each(CHECK, checked, lambda host, one: _known(one))


def _options(batch: Batch, host: str) -> dict[str, Any]:
    return ssh_options.options(host, lambda name: batch.value(host, name))


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
    # Where no line has the port OpenSSH goes by one without it (sshconnect.c: "found matching key w/out port").
    files = [Path(file).expanduser() for key in _KNOWN_FILES for file in settings.get(key, "").split()]
    if any(_holds(file, one) for file in files if file.is_file() for one in dict.fromkeys((named, name))):
        return
    raise ConfigError(
        "nobody here knows the node's host key: once it is imaged, no connection to it is made",
        wanted=f"a line for {named} in a file of known hosts",
        do="let the image carry host certificates and name their CA (@cert-authority) in known_hosts, or its keys; see"
        " docs/how-to/host-keys.md",
    )


def _settings(one: Mapping[str, Any]) -> dict[str, str]:
    port = ["-p", str(one["port"])] if one["port"] else []
    return openssh.settings([*ssh_options.words(one), *port], str(one["host"]))


def _holds(file: Path, name: str) -> bool:
    done = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", str(file)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace",
    )  # fmt: skip
    return done.returncode == 0
