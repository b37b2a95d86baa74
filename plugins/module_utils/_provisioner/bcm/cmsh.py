# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BCM's cmsh in batch: how it is run, and what it says of whom. PRIVATE to the collection.

What is known of it (administrator manual of BCM 11, chapters 2.5 and 5), and why the code is as it is:

* ``cmsh -c "a; b"`` is a session of its own: what it does not commit is lost with it. Its exit status is documented
  nowhere, so nothing here believes it: what was written is read back.
* Tables cut their cells, also with a delimiter. ``get`` prints one value whole, so values are asked for one by one,
  each in one ``foreach`` for all nodes, with its node's name before and behind it, by which it is known.
* Events of the cluster are printed amid a session unless they are switched off, and a user's ``.cmshrc`` may rename
  commands; both are left out.
* ``;`` ``|`` ``>`` ``!`` and backticks mean something in a command, the last two to a shell. No word is sent that has
  one.
* The words of a command are read by every user of the head node. None of them is a secret: BCM keeps the BMCs' login
  itself, and is not told ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command, login_host, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.record import Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, mac

#: No start-up file, the first error ends it, no colours, no events.
OPTIONS = ("-n", "-q", "--color", "no", "--disable-events")
#: A session is one word of its command, of which Linux takes 131,071 signs (MAX_ARG_STRLEN); and nodes a session. Of
#: what is written each node's own part is estimated, so less of it is used.
WORD = 100_000
BLOCK = 1000
#: Signs of names in a list of nodes, which stands in a session once for each property; and of all that stands around.
_AROUND = 4_000
NAMES = (131_071 - _AROUND) // len(record.PROPERTIES)
#: Seconds for a session, and for each of its nodes.
TIMEOUT = 120.0
EACH = 0.5

#: Prints one word. The first error ends a session, so that it is there where all before it was done.
_END = "main showprofile"
_PROFILE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")

_WAYS = re.IGNORECASE
_REFUSED = re.compile(
    r"permission denied|access denied|not authori[sz]ed|unauthori[sz]ed|insufficient (?:rights|privileges)"
    r"|certificate.{0,60}(?:expired|revoked|invalid|rejected|not found)",
    _WAYS,
)
_AWAY = re.compile(
    r"(?:unable|failed|could not|cannot|can't) (?:to )?(?:re)?connect"
    r"|connection (?:refused|reset|lost|closed|timed out)|not connected|no connection",
    _WAYS,
)


class Unreadable(ConfigError):
    """What is told of a node is not its record alone: a person's lines stand in it."""


class Cmsh:
    """The program of that path, asked in the name of a driver."""

    def __init__(self, params: Mapping[str, Any], driver: Driver) -> None:
        require(params, "provisioner_url", node=driver.ctx.node)
        self._driver = driver
        self.path = str(params["provisioner_url"])
        if not self.path.startswith("/"):
            raise ConfigError(
                "BCM is asked by its cmsh, and this is not its path",
                node=driver.ctx.node,
                wanted="the path of cmsh on the machine that runs it, for instance /cm/local/apps/cmd/bin/cmsh",
                seen=self.path,
                do="correct gpufleet_provisioner_url",
            )
        driver.login_host = login_host.led_to(params, self.path, driver.ctx.peers)
        self.address = driver.login_host.address if driver.login_host else self.path
        self._is_there = False

    # -- one session -------------------------------------------------------------------------------------------

    def run(self, *commands: str, nodes: int = 1) -> command.Answer:
        """:raises AuthFailed: where it may not be used. Whatever else it says is for others to judge."""
        self._is_there = self._is_there or bool(command.found(self._driver, self.path))
        if not self._is_there:
            raise ConfigError(
                f"BCM's cmsh is not on {command.machine(self._driver)}",
                address=self.address,
                do="name BCM's head node in gpufleet_provisioner_login_host, and its cmsh in gpufleet_provisioner_url;"
                " or run the task there (delegate_to); an inventory is read where the commands are",
            )
        argv = [self.path, *OPTIONS, "-c", "; ".join(commands)]
        answer = command.run(self._driver, argv, timeout=TIMEOUT + EACH * nodes)
        if _REFUSED.search(answer.err):
            raise AuthFailed(
                "BCM refused us",
                address=self.address,
                seen=short(answer.err),
                do="check the certificate of the user that runs the task (~/.cm/cert.pem) and its profile at BCM",
            )
        return answer

    def _usable(self, answer: command.Answer) -> None:
        if answer.code < 0 or _AWAY.search(answer.err):
            raise Unreachable(
                "BCM's daemon does not answer",
                address=self.address,
                seen=said(answer),
                do="check that cmd runs on the head node, and cmsh -c 'device status' by hand",
            )

    def _unread(self, answer: command.Answer, what: str) -> BadAnswer:
        return BadAnswer(
            f"cmsh gave no {what}",
            address=self.address,
            seen=said(answer),
            do="run cmsh -c 'device status' by hand on the head node",
        )

    # -- nodes -------------------------------------------------------------------------------------------------

    def nodes(self, names: Sequence[str]) -> dict[str, Record]:
        """These nodes' records; those that it does not know are left out.

        :raises Unreadable: where the record of one of them cannot be read.
        """
        found, wrong = self.read(names)
        for why in wrong.values():
            raise why
        return found

    def read(self, names: Sequence[str]) -> tuple[dict[str, Record], dict[str, FleetError]]:
        """As :meth:`nodes`, and beside it whose records cannot be read, and why."""

        def of_all(every: Iterable[str]) -> dict[str, Record | FleetError]:
            found: dict[str, Record | FleetError] = {}
            for block in blocks(every):
                found.update(self._nodes(block))
            return found

        told = together.of_each(self._driver, "nodes", dict.fromkeys(names), of_all)
        wrong = {name: one for name, one in told.items() if isinstance(one, FleetError)}
        return {name: one for name, one in told.items() if not isinstance(one, FleetError)}, wrong

    def _nodes(self, names: Sequence[str]) -> Mapping[str, Record | FleetError]:
        """A list with an unknown node may be answered for none of them: which are known another list tells then."""
        answer, found = self._asked(names)
        missing = [name for name in names if name not in found]
        if not missing:
            return found
        known = self._cards()
        left = [name for name in missing if name in known]
        if not left:
            return found
        if len(left) < len(names):
            return {**found, **self._nodes(left)}
        if len(names) == 1:
            # The list may be the first answer after an outage: what is garbage before and after it is the node's own.
            answer, found = self._asked(names)
            return found or {names[0]: self._unreadable(answer, names[0])}
        # What people wrote in one node's record may look like another answer. Asked alone, each tells of itself.
        half = len(names) // 2
        return {**self._nodes(names[:half]), **self._nodes(names[half:])}

    def _unreadable(self, answer: command.Answer, name: str) -> Unreadable:
        return Unreadable(
            f"the record of {name} at BCM cannot be read",
            address=self.address,
            wanted="each of its values in one line",
            seen=said(answer),
            do=f"take line breaks out of what others wrote, as in userdefined1 (cmsh -c 'device; show {name}')",
        )

    def _asked(self, names: Sequence[str]) -> tuple[command.Answer, dict[str, Record]]:
        answer, told = self._values(f"device foreach -n {','.join(names)}", "hostname", record.PROPERTIES, len(names))
        of = {name: {key: one[name] for key, one in told.items() if name in one} for name in names}
        read = {name: record.read(name, one) for name, one in of.items() if len(one) == len(record.PROPERTIES)}
        return answer, {name: one for name, one in read.items() if one is not None}

    def _values(
        self, loop: str, name: str, properties: Sequence[str], nodes: int
    ) -> tuple[command.Answer, dict[str, dict[str, str]]]:
        """Property by property, one value of each object; nothing at all where it cannot be read.

        :param name: the property that is printed around each value.
        """
        commands: list[str] = []
        for key in properties:
            one = key if key == "status" else f"get {key}"
            commands += [f"{loop} (get {name}; {one}; get {name})", _END]
        answer = self.run(*commands, nodes=nodes)
        self._usable(answer)
        parts = _parts(answer.out)
        told = [record.pairs(part) for part in parts]
        if len(told) != len(properties) or None in told:
            return answer, {}
        return answer, {key: one for key, one in zip(properties, told) if one is not None}

    def cards(self) -> dict[str, str]:
        """Every physical node, and the card that it boots by; empty where BCM has not seen it yet."""
        return together.same(self._driver, "cards", self._cards)

    def _cards(self) -> dict[str, str]:
        answer, told = self._values("device foreach -t physicalnode", "hostname", ["mac"], BLOCK)
        found = told.get("mac")
        if found is None or not all(map(record.is_mac, found.values())):
            raise self._unread(answer, "list of its nodes")
        return {name: "" if card == record.NO_MAC else mac(card) for name, card in found.items()}

    def bmcs(self, nodes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """By which address BCM reaches these nodes' BMCs; of whom it does not switch the power by one, nothing."""
        by_card: dict[str, list[str]] = {}
        for name, one in nodes.items():
            if record.BMC.match(one.get("powercontrol", "")):
                by_card.setdefault(one["powercontrol"], []).append(name)
        found: dict[str, str] = {}
        for card, names in by_card.items():
            for block in blocks(names):
                found.update(self._bmcs(card, block))
        return found

    def _bmcs(self, card: str, names: Sequence[str]) -> dict[str, str]:
        loop = f"get hostname; interfaces; get {card} ip; exit; get hostname"
        answer = self.run(f"device foreach -n {','.join(names)} ({loop})", _END, nodes=len(names))
        self._usable(answer)
        [part] = _parts(answer.out) or [[]]
        found = record.pairs(part)
        if found is None or set(found) != set(names):
            raise self._unread(answer, f"address of {card} of {cut(', '.join(names), 200)}")
        return {name: told for name, told in found.items() if told not in ("", "0.0.0.0")}

    # -- power -------------------------------------------------------------------------------------------------

    def power(self, name: str, verb: str = "status") -> str:
        """What is said of its power, in BCM's word: of several supplies what all of them say; empty where none does."""
        answer = self.run(f"device power -n {name} {verb}", _END)
        self._usable(answer)
        return record.power(answer.out, name)

    # -- images and categories ---------------------------------------------------------------------------------

    def objects(self, mode: str, *properties: str) -> dict[str, Record]:
        """All software images, or all categories, with these properties."""
        return together.same(self._driver, f"{mode} {properties}", lambda: self._objects(mode, *properties))

    def _objects(self, mode: str, *properties: str) -> dict[str, Record]:
        answer, told = self._values(f"{mode} foreach *", "name", properties, BLOCK)
        names = set(next(iter(told.values()), ()))
        if not told or any(set(one) != names for one in told.values()):
            raise self._unread(answer, f"list of what it has in {mode}")
        return {name: record.bare({key: one[name] for key, one in told.items()}) for name in names}

    def profile(self) -> str:
        """What its user may do there, by the name of the profile."""
        answer = self.run(_END)
        self._usable(answer)
        if not _PROFILE.match(answer.out.strip()):
            raise self._unread(answer, "name of a profile")
        return answer.out.strip()

    # -- what became of a write --------------------------------------------------------------------------------

    def not_there(self, answer: command.Answer, what: str, wrong: str) -> FleetError:
        """What was read back says that it was not taken, whatever the session says of it."""
        away = answer.code < 0 or bool(_AWAY.search(answer.err))
        return (Unreachable if away else Refused)(
            "what was written is not there",
            address=self.address,
            wanted=cut(what, 200),
            seen=f"{wrong}; {said(answer)}",
            do="write it by hand in cmsh and see what commit says; a profile that may only read cannot commit",
        )


def blocks(names: Iterable[str], size: int = BLOCK) -> Iterator[list[str]]:
    """As many of them as one session takes, with a loop for each property."""
    block: list[str] = []
    length = 0
    for name in names:
        if block and (len(block) == size or length + len(name) > NAMES):
            yield block
            block, length = [], 0
        block.append(name)
        length += len(name) + 1
    if block:
        yield block


def _parts(text: str) -> list[list[str]]:
    """What was printed before each end; nothing where the last one is not there, since the session was broken off."""
    lines = text.rstrip().split("\n")
    end = lines[-1].strip()
    if not _PROFILE.match(end):
        return []
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == end:
            found.append([])
        else:
            found[-1].append(line)
    return found[:-1]


def said(answer: command.Answer) -> str:
    return f"exit {answer.code}: {short(answer.err or answer.out)}"
