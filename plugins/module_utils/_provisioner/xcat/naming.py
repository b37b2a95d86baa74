# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a new node's name and card need at xCAT before ``nodeset`` takes it: hosts, DNS, DHCP. PRIVATE.

What is known of these commands (their sources, 2.18), and why the code is as it is:

* ``makehosts`` writes ``/etc/hosts`` of the management node from the node's ``ip``, ``makedns`` its DNS, and
  ``makedhcp`` the entry of its card, which needs the name to resolve. None of them tells whether anything changed, and
  ``makehosts`` says nothing of a node without an ``ip``.
* They write files of the whole site. So they run where the site names them, for the one node, and none by itself.
* Whether a name resolves there ``nodestat`` tells, whose answer is no error. Where xCAT looks by nmap and knows the
  node's ``ip``, it does not ask for the name; so where the commands run on the management node, ``getent`` is asked.
* Nothing tells by both ways what DNS and DHCP have. That all of them are due stands in the node's comment, from the
  write that makes or moves it to the moment at which the last of them was done: a run that was killed is gone on with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import Cli, failures

#: A key of the option ``driver``: which of them the site wants, in whatever order.
KEY = "name_services"
#: In this order: each needs the ones before it.
COMMANDS: Mapping[str, str] = {"hosts": "makehosts", "dns": "makedns", "dhcp": "makedhcp"}
#: Fields of a record that they are made from.
MADE_FROM = frozenset({"ip", "mac"})
DUE = "due"


def wished(wanted: Wanted) -> list[str]:
    """The commands that the site wants.

    :raises ConfigError: for one that there is none of.
    """
    given: Any = wanted.extras.get(KEY) or ()
    names = list(map(str, given)) if isinstance(given, (list, tuple)) else [str(given)]
    odd = sorted(set(names) - set(COMMANDS))
    if odd:
        raise ConfigError(
            f"xCAT makes no {', '.join(odd)} of a node's name",
            node=wanted.host,
            wanted=f"a list of {', '.join(COMMANDS)}",
            do=f"correct {KEY} in the option driver (enroll_driver)",
        )
    return [command for name, command in COMMANDS.items() if name in names]


def is_due(raw: Mapping[str, str]) -> bool:
    return record.words(raw.get("usercomment", "")).names == DUE


def make(cli: Cli, wanted: Wanted, name: str, command: str) -> None:
    """:raises Refused: where it says that it failed. That it says nothing proves nothing."""
    answer = cli.run(command, name)
    wrong = failures(answer, [name])
    if wrong:
        raise cli.not_there(answer, f"{command} {name}", wrong[name]).located(node=wanted.host)


def unresolved(cli: Cli, wanted: Wanted, raw: Mapping[str, str]) -> FleetError | None:
    """Why xCAT would not take the node by its name; None where nothing tells against it."""
    why = cli.unresolved(wanted.key, raw.get("ip", "").partition(",")[0])
    if not why:
        return None
    return Refused(
        "the node's name does not resolve on xCAT's management node, so that nodeset refuses it",
        node=wanted.host,
        address=cli.address,
        wanted=f"{wanted.key} with the address {raw.get('ip') or 'of its ip, which is not set'}",
        seen=why,
        do="set ip in the option driver (enroll_driver), and the domain of its network or of the site at xCAT"
        f" (makehosts {wanted.key}; getent ahosts {wanted.key})",
    )
