# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command of our own boot server, and what it answers. PRIVATE to the collection.

The command is a program of the role ``netboot``. It takes one write after the other under a lock of its own, each made
of a version of the record that it names; what it answers is the record as it is then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    Changed,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command, login_host, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe.record import Record

_AGAIN = "run again: it is judged anew"
_ANEW = (
    "correct gpufleet_boot_mac; or, where the card or the machine was replaced, take the record away on the boot server"
    " (gpufleet-netboot remove NAME) and enrol the node anew"
)


class Cli:
    def __init__(self, params: Mapping[str, Any], driver: Driver) -> None:
        require(params, "provisioner_url", node=driver.ctx.node)
        self._path = str(params["provisioner_url"])
        driver.login_host = login_host.led_to(params, self._path, driver.ctx.peers)
        self.address = driver.login_host.address if driver.login_host else self._path
        self._driver = driver
        self._is_there = False
        #: Seconds by which the boot server's clock was ahead of ours, at the least, when it answered last.
        self.ahead = 0.0

    def nodes(self, names: Sequence[str] = ()) -> dict[str, Record]:
        found, self.ahead = together.same(self._driver, f"list {names}", lambda: self._listed(names))
        return found

    def _listed(self, names: Sequence[str]) -> tuple[dict[str, Record], float]:
        """And how far the clock there was ahead, which each of those that asked has to know."""
        return self._asked(["list", *names]), self.ahead

    def write(
        self, host: str, verb: str, name: str, version: int, body: Any = None, *, saying: str, hard: bool = False
    ) -> Record | None:
        """One write, and the record as it is by then; None where it may not be sent."""
        what = f"{self._path} {verb} {name} {saying}".rstrip()
        if not self._driver.ctx.may_write(what, destructive=hard, nodes=(host,)):
            return None
        text = "" if body is None else json.dumps(body)
        found = self._asked([verb, name, str(version)], text).get(name)
        if found is None:
            raise BadAnswer(f"the boot server does not show {name} after {verb}", address=self.address)
        return found

    def _asked(self, words: Sequence[str], stdin: str = "") -> dict[str, Record]:
        self._is_there = self._is_there or bool(command.found(self._driver, self._path))
        if not self._is_there:
            raise ConfigError(
                f"the command of the boot server is not on {command.machine(self._driver)}",
                address=self.address,
                do="name the boot server in gpufleet_provisioner_login_host, and in gpufleet_provisioner_url what the"
                " role netboot installs there; or run the task there (delegate_to)",
            )
        answer = command.run(self._driver, [self._path, *words], stdin=stdin)
        told = _json(answer.out)
        if answer.code != 0:
            raise self._error(told, answer)
        if not _in_form(told):
            raise BadAnswer(
                "the command of the boot server does not answer as it should",
                address=self.address,
                seen=cut(answer.out or answer.err, 200),
                do="correct gpufleet_provisioner_url, or run the role netboot again",
            )
        self.ahead = told["now"] - time.time()
        nodes: dict[str, Record] = told["nodes"]
        return nodes

    def _error(self, told: Any, answer: command.Answer) -> FleetError:
        kind = told.get("kind") if isinstance(told, dict) else ""
        words = cut(told.get("error") if kind else answer.err or f"exit {answer.code}", 300)
        where: dict[str, Any] = {"address": self.address, "seen": words}
        if kind == "changed":
            return Changed("the node's record was changed since it was judged", **where, do=_AGAIN)
        if kind == "absent":
            return Changed("the boot server does not know the node any more", **where, do=_AGAIN)
        if kind == "mac":
            return WrongMachine("its MAC belongs to another node of the boot server", **where)
        if kind == "ordered":
            return WrongMachine("what the node boots was ordered for the machine with another MAC", **where, do=_ANEW)
        if kind == "denied":
            return AuthFailed(
                "the files of the boot server may not be used by this user",
                **where,
                do="run the task as a user of the group that the role netboot names, or with become",
            )
        if kind == "broken":
            return broken(words, self.address)
        if kind == "refused":
            return Refused("the boot server refused the record", **where)
        return Unreachable(
            "the boot server's files cannot be used",
            **where,
            do="look at the disk of the boot server, and run the role netboot",
        )


def _in_form(told: Any) -> bool:
    nodes = told.get("nodes") if isinstance(told, dict) else None
    if not isinstance(nodes, dict) or not isinstance(told.get("now"), float):
        return False
    return all(isinstance(one, dict) and ("mac" in one or "error" in one) for one in nodes.values())


def broken(words: Any, address: str) -> FleetError:
    return Refused(
        "the node's record on the boot server is broken",
        address=address,
        seen=cut(str(words), 300),
        do="mend the file, or take it away there (gpufleet-netboot remove NAME) and enrol the node anew",
    )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
