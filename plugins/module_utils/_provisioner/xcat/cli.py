# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's commands: how they are run, and what they say of whom. PRIVATE to the collection.

What is known of them (2.18, measured unless said otherwise), and why the code is as it is:

* They exit with 0 on errors (``site.master is not set!``, an unknown node of ``nodels``) and with 1 where one node of
  many failed: nothing here believes an exit status. ``chdef`` says the same whether it changed anything or not.
* A line about one node begins with its name, with ``[servicenode]:`` behind it where one serves it; its errors say
  ``Error:`` then. What concerns all nodes has no name before it.
* A failed ``nodeset`` prints the state that it did not reach, and the error beside it.
* ``lsdef -i`` prints an empty attribute as ``attr=``; ``-c`` prints one line an attribute.
* ``mkdef -z`` and ``chdef -z`` read values from their input, and one run serves many nodes: nothing that was not to be
  read by other users of the machine stands in the words of a command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record

T = TypeVar("T")

#: Nodes a command: their names are one word of it, of which a system takes 128 kB.
BLOCK = 1000
WORD = 100_000
#: What no two nodes may share.
ALONE = ("mac", "bmc", "ip")
#: Seconds for a command, and for each of its nodes: a BMC that does not answer takes its time.
TIMEOUT = 120.0
EACH = 2.0

_OF_NODE = re.compile(r"(\S+?): (?:\[[^\]]*\]: )?(.*)\Z")
#: Between the names in a line of many.
_APART = re.compile(r"[\s,:;'\"()]+")
#: What concerns all nodes has none's name before it: the BMC of one may refuse or be away as well.
_OF_ALL = r"^(?:\[[^\]]*\]: )?(?:Error: )?"
_WAYS = re.IGNORECASE | re.MULTILINE
_REFUSED = re.compile(_OF_ALL + r"(?:permission denied|not authori[sz]ed)", _WAYS)
_AWAY = re.compile(_OF_ALL + r"(?:unable to open socket connection|connection refused|verify that the xcatd)", _WAYS)
_WHOLE = re.compile(r"(?:\[[^\]]*\]: )?Error: ")
_SUMMARY = re.compile(r"some node\(s\)|against the (?:following )?nodes?:")
_SECRET = re.compile(r"(password=).*", re.IGNORECASE)
#: Of a node whose name does not resolve; it is no error, and exits with 0.
_NO_NAME = "Please make sure"
_NO_MASTER = "site.master is not set!"


class Unreadable(ConfigError):
    """What is told of a node is not its record alone: a person's lines stand in it, or it is no node."""


class Cli:
    """The commands below one folder, asked in the name of a driver."""

    #: Whether the BMC's password, as it is sent, may be written into xCAT's logs.
    logs_secrets = False
    #: Is who asks told by the machine on which the commands run, so that one may ask for others?
    asks_for_others = True

    def __init__(self, params: Mapping[str, Any], driver: Driver) -> None:
        require(params, "provisioner_url", node=driver.ctx.node)
        self._driver = driver
        self._root = str(params["provisioner_url"]).rstrip("/")
        if not self._root.startswith("/"):
            raise ConfigError(
                "xCAT is asked by its commands, and this is not their folder",
                node=driver.ctx.node,
                wanted="a folder of the machine that runs xCAT's commands, for instance /opt/xcat",
                seen=self._root,
                do="correct gpufleet_provisioner_url",
            )
        self._paths: dict[str, str] = {}
        driver.login_host = login_host.led_to(params, self._root, driver.ctx.peers)
        server = os.environ.get("XCATHOST") or ""
        here = f"{self._root} ({server})" if server else self._root
        self.address = driver.login_host.address if driver.login_host else here

    def close(self) -> None:
        """It keeps nothing open."""

    # -- one command -------------------------------------------------------------------------------------------

    def run(self, *argv: str, stdin: str = "", nodes: int = 1) -> command.Answer:
        """:raises AuthFailed: where it may not be used. Whatever else it says is for others to judge."""
        answer = command.run(
            self._driver,
            [self._path(argv[0]), *argv[1:]],
            timeout=TIMEOUT + EACH * nodes,
            env={"XCATROOT": self._root},
            stdin=stdin,
        )
        if _REFUSED.search(answer.err):
            raise AuthFailed(
                f"xCAT refused us {argv[0]}",
                address=self.address,
                wanted=f"a rule of its policy table that allows this user {argv[0]}",
                seen=short(answer.err),
                do=f"let it (mkdef -t policy PRIORITY name=USER commands={argv[0]} rule=allow), or check ~/.xcat of the"
                " user that runs the task",
            )
        return answer

    def _path(self, name: str) -> str:
        places = [f"{self._root}/{folder}{name}" for folder in ("bin/", "sbin/", "")]
        if not self._paths.get(name):
            self._paths[name] = command.found(self._driver, *places)
        if not self._paths[name]:
            raise ConfigError(
                f"xCAT's command {name} is not on {command.machine(self._driver)}",
                address=self.address,
                wanted=" or ".join(places),
                do="name xCAT's management node, or where its client is installed, in gpufleet_provisioner_login_host,"
                " and the folder there in gpufleet_provisioner_url; or run the task there (delegate_to); an inventory"
                " is read where the commands are",
            )
        return self._paths[name]

    # -- reading -----------------------------------------------------------------------------------------------

    def _of_all(self, what: str, ask: Callable[[], T]) -> T:
        return together.same(self._driver, what, ask) if self.asks_for_others else ask()

    def _of_each(self, what: str, names: Sequence[str], read: Callable[[Iterable[str]], dict[str, T]]) -> dict[str, T]:
        if not self.asks_for_others:
            return read(names)
        return together.of_each(self._driver, what, dict.fromkeys(names), read)

    def nodes(self, names: Sequence[str], *more: str) -> dict[str, dict[str, str]]:
        """These nodes' attributes; those that it does not know are left out.

        None named: of all of them what is each one's alone.

        :raises ConfigError: where the record of one of them cannot be read.
        """
        if not names:
            return self._of_all("cards", lambda: self._read("node", (), ALONE))
        found, wrong = self.read(names, *more)
        for why in wrong.values():
            raise why
        return found

    def members(self, groups: Sequence[str]) -> list[str]:
        """The nodes of these groups; of none named all nodes.

        :raises ConfigError: for a group that there is none of: misspelt, it would be an empty fleet.
        """
        if not groups:
            return list(self.nodes([]))
        argv = ["lsdef", "-t", "node", "-o", ",".join(groups), "-i", "mac", "-c"]
        answer = self.run(*argv, nodes=BLOCK)
        self._usable(answer, argv[0])
        unknown = sorted(record.absent(answer.err))
        if unknown:
            raise ConfigError(
                f"xCAT has no group {', '.join(unknown)}", address=self.address, do="correct query, group"
            )
        read = record.attributes(answer.out, (), ("mac",))
        if read is None or not read.found:
            raise BadAnswer(
                f"{argv[0]} gave no list of nodes",
                address=self.address,
                seen=said(answer),
                do="run it by hand: " + cut(" ".join(argv), 200),
            )
        return list(read.found)

    def read(self, names: Sequence[str], *more: str) -> tuple[dict[str, dict[str, str]], dict[str, FleetError]]:
        """As :meth:`nodes`, and beside it whose records cannot be read, and why."""
        asked = (*record.ATTRIBUTES, *more)

        def of_all(every: Iterable[str]) -> dict[str, dict[str, str] | FleetError]:
            found: dict[str, dict[str, str]] = {}
            wrong: dict[str, FleetError] = {}
            for block in blocks(list(every)):
                self._apart(block, asked, found, wrong)
            return {**found, **wrong}

        told = self._of_each(f"nodes {more}", names, of_all)
        wrong = {name: one for name, one in told.items() if isinstance(one, FleetError)}
        return {name: one for name, one in told.items() if not isinstance(one, FleetError)}, wrong

    def _apart(
        self,
        names: Sequence[str],
        asked: Sequence[str],
        found: dict[str, dict[str, str]],
        wrong: dict[str, FleetError],
    ) -> None:
        """Of fewer and fewer, where no list can be read: a record may have lines that read like another one's
        attributes, or like none. Asked alone, each tells of itself; who does not even then is that node's own trouble.
        """
        try:
            found.update(self._read("node", names, asked))
            return
        except Unreadable as exc:
            if len(names) == 1:
                wrong[names[0]] = exc
                return
        except BadAnswer:
            if len(names) == 1:
                raise
        half = len(names) // 2
        self._apart(names[:half], asked, found, wrong)
        self._apart(names[half:], asked, found, wrong)

    def having(self, attribute: str, patterns: Sequence[str]) -> dict[str, dict[str, str]]:
        """Of those nodes whose attribute matches one of these, and perhaps of others, what xCAT is told of all."""

        def of_block(block: Sequence[str]) -> dict[str, dict[str, str]]:
            return self._read("node", (), ALONE, "-w", f"{attribute}=~({'|'.join(block)})")

        told = self._of_each(attribute, patterns, lambda every: dict.fromkeys(every, _by_blocks(every, of_block)))
        return {name: one for found in told.values() for name, one in found.items()}

    def image(self, name: str) -> dict[str, str] | None:
        """An osimage; None where xCAT has none of that name."""
        asked = ("provmethod", "osvers", "osarch", "profile")
        return self._of_all(f"osimage {name}", lambda: self._read("osimage", [name], asked)).get(name)

    def groups(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """What groups say of their nodes; those that it does not know are left out."""
        asked = ("provmethod", "netboot")
        return self._of_each(
            "groups", names, lambda every: _by_blocks(every, lambda block: self._read("group", block, asked))
        )

    def _read(self, kind: str, names: Sequence[str], asked: Sequence[str], *where: str) -> dict[str, dict[str, str]]:
        """:raises BadAnswer: unless each that was asked for is told, or told to be unknown."""
        argv = ["lsdef", "-t", kind, *(["-o", ",".join(names)] if names else []), *where, "-i", ",".join(asked), "-c"]
        answer = self.run(*argv, nodes=len(names))
        self._usable(answer, argv[0])
        unknown = record.absent(answer.err)
        told = record.attributes(answer.out, names, asked)
        if told is not None:
            self._demand_apart(told, names, unknown)
        if told is None or any(name not in told.found and name not in unknown for name in names):
            raise BadAnswer(
                f"{argv[0]} gave no list of what was asked for",
                address=self.address,
                seen=said(answer),
                do="run it by hand: " + cut(" ".join(argv), 200),
            )
        return told.found

    def _demand_apart(self, told: record.Told, names: Sequence[str], unknown: set[str]) -> None:
        """:raises Unreadable: where a line of one record reads like another one's, or like none."""
        others = set(told.found) - set(names) if names else set()
        forged = told.twice | unknown & set(told.found) | (others if set(names) & set(told.found) else set())
        if forged:
            raise Unreadable(
                "a line of a comment, or of another attribute, reads like an attribute of a node",
                address=self.address,
                wanted="each attribute of a node once, in one line",
                seen=cut(f"{_asked(names)}more of {', '.join(sorted(forged))}", 200),
                do="take lines of the form NAME: WORD=... out of the node's usercomment, and line breaks out of its"
                " other attributes",
            )
        if others:
            raise Unreadable(
                "xCAT takes this name for more than one node",
                address=self.address,
                wanted=cut(", ".join(names), 200),
                seen=cut(", ".join(sorted(others)), 200),
                do="set gpufleet_provisioner_id to the name of a node, and not of a group",
            )
        if told.broken:
            where = ", ".join(f"{name}: {attribute}" for name, attribute in sorted(told.broken.items()))
            raise Unreadable(
                "an attribute of a node has a line break, and what comes after it cannot be told from its record",
                address=self.address,
                wanted="each attribute of a node in one line",
                seen=cut(where, 200),
                do=f"take the line break out: chdef -t node {' '.join(next(iter(sorted(told.broken.items()))))}=...",
            )

    def _usable(self, answer: command.Answer, name: str) -> None:
        if answer.code < 0 or _AWAY.search(answer.err):
            raise Unreachable(
                "xcatd does not answer",
                address=self.address,
                seen=said(answer),
                do=f"check that xcatd runs, and {name} by hand",
            )

    def told(self, names: Sequence[str], *argv: str) -> dict[str, str]:
        """What a command with a line a node says of each; of whom it says an error, or nothing, nothing."""
        answer = self.run(argv[0], ",".join(names), *argv[1:], nodes=len(names))
        self._usable(answer, argv[0])
        wrong = errors(answer, names)
        return {name: text for name, text in lines(answer.out, names) if name not in wrong}

    def unresolved(self, name: str, address: str) -> str:
        """Why this name stands for no node to the management node, as far as that can be told; else empty."""
        told = self.told([name], "nodestat").get(name, "")
        return told if _NO_NAME in told else self._looked_up(name, address)

    def _looked_up(self, name: str, address: str) -> str:
        """On the management node itself. From another machine nobody asks its resolver: xCAT's client runs wherever its
        commands find the management node in their environment, here or on the login host."""
        server = together.once(self._driver, "XCATHOST", lambda: command.run(self._driver, ["printenv", "XCATHOST"]))
        if server.out.strip() or server.code not in (0, 1):  # 1: it is not set
            return ""
        # "hosts" tells of a name with addresses of both kinds those of IPv6 alone.
        answer = command.run(self._driver, ["getent", "ahosts", name])
        found = list(dict.fromkeys(net.called(line.split()[0]) for line in answer.out.splitlines() if line.strip()))
        if not found:
            return f"getent ahosts {name} finds nothing"
        return f"it is {', '.join(found)}" if address and net.called(address) not in found else ""

    # -- what became of a write --------------------------------------------------------------------------------

    def not_there(self, answer: command.Answer, what: str, wrong: str) -> FleetError:
        """What was read back says that it was not taken, whatever the command says of it."""
        away = answer.code < 0 or bool(_AWAY.search(answer.err))
        return (Unreachable if away else Refused)(
            "what was written is not there",
            address=self.address,
            wanted=cut(what, 200),
            seen=f"{wrong}; {said(answer)}",
            do="run it by hand, and look at /var/log/xcat of the management node",
        )


def _asked(names: Sequence[str]) -> str:
    return f"asked for {names[0]}: " if len(names) == 1 else ""


def blocks(names: Sequence[str]) -> Iterator[list[str]]:
    """As many of them as one command takes."""
    block: list[str] = []
    size = 0
    for name in names:
        if block and (len(block) == BLOCK or size + len(name) > WORD):
            yield block
            block, size = [], 0
        block.append(name)
        size += len(name) + 1
    if block:
        yield block


def _by_blocks(names: Iterable[str], read: Callable[[Sequence[str]], dict[str, T]]) -> dict[str, T]:
    return {name: one for block in blocks(list(names)) for name, one in read(block).items()}


def lines(text: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """Lines about one of these nodes: which, and what."""
    known = set(names)
    told = (_OF_NODE.match(line) for line in text.splitlines())
    return [(one[1], one[2]) for one in told if one and one[1] in known]


def errors(answer: command.Answer, names: Sequence[str]) -> dict[str, str]:
    """Of which nodes it says that they failed, and why."""
    if _NO_MASTER in answer.out + answer.err:
        return dict.fromkeys(names, _NO_MASTER)
    text = f"{answer.out}\n{answer.err}"
    found = {name: said[7:] for name, said in lines(text, names) if said.startswith("Error: ")}
    for line in text.splitlines():  # of many nodes: ``Error: Failed to run 'rpower' against the nodes: n001,n002``
        if line.startswith("Error: "):
            found.update({name: line[7:] for name in names if name not in found and name in _APART.split(line)})
    return found


def failures(answer: command.Answer, names: Sequence[str]) -> dict[str, str]:
    """As :func:`errors`, of a command that serves all or nobody: what failed of it for nobody by name, such as a
    ``dhcp server is not running``, failed for all; a summary of those that it names is no such error."""
    found = errors(answer, names)
    text = f"{answer.out}\n{answer.err}".split("\n")
    unnamed = (line for line in text if _WHOLE.match(line) and not set(names) & set(_APART.split(line)))
    whole = [line for line in unnamed if not _SUMMARY.search(line)]
    if not whole and not (answer.code and not found):
        return found
    return {**dict.fromkeys(names, short(whole[0]) if whole else said(answer)), **found}


def said(answer: command.Answer) -> str:
    """Its words, without the passwords that lsdef prints in clear."""
    text = _SECRET.sub(rf"\1{record.MASK}", answer.err or answer.out)
    return f"exit {answer.code}: {short(text)}"
