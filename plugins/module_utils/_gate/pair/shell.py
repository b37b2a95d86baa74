# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands by which nodes are measured with each other, and what they answer. PRIVATE to the collection.

Each is a few words of a shell over the node's own connection, so that nothing is left there. Each ends by itself:
``timeout`` ends it with its group, also where its controller or its connection is gone, and what is left after it, in
whatever session, is known by a word in its environment, and killed. While it runs it holds the lock by which gates keep
off each other (``alone.py``).

Standard library only.
"""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
import uuid
from collections.abc import Sequence
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import (
    BUSY_STATUS,
    Call,
    Heard,
    Moved,
    counters,
)

_MARK = "gpufleet-pair"
#: The most of what a command prints that is kept.
_LIMIT = 1_000_000
#: After the word to end so many seconds until it is killed; for so long it is tried again, a moment apart; so long it
#: waits for another gate.
_KILL, _TRIES, _WAIT = 5, 40, 20
#: So much longer than the command its output is read, where something that nobody could end keeps that open.
_READ = 5
#: How iperf3 and perftest say that nobody listens yet.
_NOBODY = ('*"onnection refused"*', '*"Couldn\'t connect"*', '*"unable to connect"*')
_STATUS = re.compile(rf"^{_MARK}-status (\d{{1,3}})$", re.M)
_COUNT = re.compile(r"\d{1,20}\Z")
#: Local addresses as the kernel tells them where there is no ``ip``: of both families, without those of the loopback.
_TRIE = re.compile(r"\|-- (?!127\.)(\S+)\n\s*/32 host LOCAL")
_INET6 = re.compile(r"^([0-9a-f]{32}) \S+ \S+ (?!10 )\S+ \S+ +\S+$", re.M)


def longest(call: Call) -> float:
    """Seconds after which it has ended by itself, whatever happens."""
    return call.seconds + _KILL + _WAIT + _READ + (_TRIES if call.retried else 0)


def lock(folder: str) -> list[str]:
    """Words before a command that keep other gates off the node while it runs."""
    return ["flock", "-w", str(_WAIT), "-E", str(BUSY_STATUS), folder]


def command(call: Call, folder: str) -> str:
    """folder: that of the node's PCI devices, or the nearest one above it where the kernel has none."""
    argv = ["timeout", "-k", str(_KILL), str(math.ceil(call.seconds)), *call.argv]
    held = " ".join([*map(shlex.quote, lock("")[:-1]), '"$d"', *map(shlex.quote, argv)])
    run = held if call.alone else " ".join(map(shlex.quote, argv))
    own = f"GPUFLEET_PAIR={uuid.uuid4().hex}"
    reader = f"timeout -k 1 {math.ceil(call.seconds) + _KILL + _WAIT + 1} head -c {_LIMIT}"
    once = f'out=$({{ {own} {run}; s=$?; {_end(own)}; echo; echo "{_MARK}-status $s"; }} </dev/null 2>&1 | {reader})'
    again = (
        # By the clock: what is refused slowly has fewer tries. That of the boot is set back by nobody.
        f"read u e </proc/uptime; e=$((${{u%%.*}}+{_TRIES})); while :; do {once}; case $out in {'|'.join(_NOBODY)})"
        f' read u n </proc/uptime; if test "${{u%%.*}}" -lt $e; then sleep 0.3; continue; fi;; esac; break; done'
    )
    place = f'd={shlex.quote(folder)}; while ! test -d "$d"; do d=$(dirname "$d"); done'
    return f"{place}; {again if call.retried else once}; printf '%s\\n' \"$out\""


def _end(own: str) -> str:
    """Kills whatever has this word in its environment; what one of them has just begun at the second look."""
    found = f"$(grep -lsz '^{own}$' /proc/[0-9]*/environ)"
    return f'for i in 1 2 3; do for p in {found}; do p=${{p%/environ}}; kill -9 "${{p#/proc/}}"; done; done 2>/dev/null'


def heard(text: str, problem: str) -> Heard:
    """What a command has answered."""
    if problem:
        return Heard(problem=problem)
    found = _STATUS.findall(text)
    if len(found) != 1:
        return Heard(text, None, "its answer was cut short, or is longer than any tool's")
    return Heard(text[: text.rindex(f"{_MARK}-status ")], int(found[0]))


# -- what the kernel shows ---------------------------------------------------------------------------------------------


def look(sysfs: str, boot_id_path: str, ports: Sequence[str]) -> str:
    """Asks for the boot, and for what each port has counted."""
    paths = [f"{sysfs}/{path}" for port in ports for path in counters(port)[:2]]
    reads = [f"cat {shlex.quote(path)} 2>/dev/null || echo none" for path in paths]
    return "; ".join([f"echo {_MARK}", f"cat {shlex.quote(boot_id_path)}", *reads, f"echo {_MARK}"])


def counted(text: str, ports: Sequence[str]) -> tuple[str, dict[str, tuple[Optional[int], Optional[int]]]]:
    """The boot's id and by port what it has sent and received, in bytes; no id where it is no such answer."""
    parts = text.split(f"{_MARK}\n")
    lines = [line.strip() for line in parts[1].splitlines()] if len(parts) == 3 else []
    if len(lines) != 1 + 2 * len(ports):
        return "", {}
    found = {}
    for at, port in enumerate(ports):
        size = counters(port)[2]
        sent, received = (int(word) * size if _COUNT.match(word) else None for word in lines[1 + 2 * at : 3 + 2 * at])
        found[port] = (sent, received)
    return lines[0], found


def moved(before: tuple[Optional[int], Optional[int]], after: tuple[Optional[int], Optional[int]]) -> Moved:
    """A counter that fell was set back, and nobody knows what it missed."""
    rises = (
        None if first is None or last is None or last < first else last - first for first, last in zip(before, after)
    )
    return Moved(*rises)


def addresses(ports: Sequence[str]) -> str:
    """Asks for the first address of each network device that others can reach."""
    asks = [f"ip -o addr show dev {shlex.quote(port)} scope global 2>/dev/null | head -n 1" for port in ports]
    return "; ".join([f"echo {_MARK}", *(f"{ask}; echo {_MARK}" for ask in asks)])


def addressed(text: str, ports: Sequence[str]) -> dict[str, str]:
    """By port its address; what tells none is not there."""
    parts = [part.split() for part in text.split(f"{_MARK}\n")[1:-1]]
    found = {}
    for port, words in zip(ports, parts if len(parts) == len(ports) else []):
        for at, word in enumerate(words[:-1]):
            if word in ("inet", "inet6") and port not in found:
                found[port] = _plain(words[at + 1])
    return {port: address for port, address in found.items() if address}


def own(address: str) -> str:
    """Asks for all addresses that the node has, for what it resolves this one to, and for its name."""
    kernel = "grep -B1 '/32 host LOCAL' /proc/net/fib_trie; cat /proc/net/if_inet6"
    resolved = ":" if _plain(address) else f"timeout 10 getent ahosts {shlex.quote(address)}"
    asks = [f"ip -o addr 2>/dev/null || {{ {kernel}; }} 2>/dev/null", f"{resolved} 2>/dev/null", "uname -n"]
    return "; ".join([f"echo {_MARK}", *(f"{ask}; echo {_MARK}" for ask in asks)])


def not_own(text: str, address: str) -> str:
    """Why nobody knows that this is an address of that node; empty where it is.

    A name may stand for a loopback in the node's own file of hosts: then it has to be the node's name.
    """
    parts = text.split(f"{_MARK}\n")[1:-1]
    known, resolved, name = parts if len(parts) == 3 else ("", "", "")
    words = [_plain(word) for word in {line.split()[0] for line in resolved.splitlines() if line.strip()}]
    told = [_plain(address)] if _plain(address) else words
    itself = {name.strip(), name.strip().partition(".")[0]} - {""}
    reached = {one for one in told if one and not (one in words and _loops(one))}
    named = any(map(_loops, words)) and bool({address, address.partition(".")[0]} & itself)
    if (reached or named) and reached <= _known(known):
        return ""
    to = f" ({', '.join(sorted(reached))})" if reached - {address} else ""
    return f"its address {address}{to} is none that it has: whatever has it would be loaded in its place"


def has(text: str) -> set[str]:
    """By which addresses others can reach the node, as it answered ``own``."""
    return _known("".join(text.split(f"{_MARK}\n")[1:2])) - {""}


def is_name(address: str) -> bool:
    return not _plain(address)


def resolves(names: Sequence[str]) -> str:
    """Asks what the node resolves these to, each by itself: one that nobody knows hides no other."""
    asks = [f"timeout 10 getent ahosts {shlex.quote(name)} 2>/dev/null; echo {_MARK}" for name in names]
    return "; ".join([f"echo {_MARK}", *asks])


def resolved(text: str, names: Sequence[str]) -> dict[str, set[str]]:
    """By name the addresses under which this node would call it; none where it does not know."""
    parts = text.split(f"{_MARK}\n")[1:-1]
    rows = parts if len(parts) == len(names) else [""] * len(names)
    return {
        name: {_plain(line.split()[0]) for line in row.splitlines() if line.strip()} for name, row in zip(names, rows)
    }


def _known(text: str) -> set[str]:
    rows = [line.split() for line in text.splitlines() if " scope host" not in line]
    found = {_plain(words[at + 1]) for words in rows for at, word in enumerate(words[:-1]) if word in ("inet", "inet6")}
    found |= {_plain(word) for word in _TRIE.findall(text)}
    return found | {_plain(":".join(re.findall("....", word))) for word in _INET6.findall(text)}


def _loops(address: str) -> bool:
    return bool(address) and ipaddress.ip_address(address).is_loopback


def _plain(word: str) -> str:
    try:
        return str(ipaddress.ip_interface(word).ip)
    except ValueError:
        return ""
