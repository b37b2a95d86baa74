# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until the nodes of a batch answer on their SSH port. PRIVATE to the collection.

One task for the whole batch, on the controller: a hundred nodes that boot for ten minutes hold no fork each. That
a port answers proves no deploy; ``image_verify`` in node mode does that.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH, FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    DeadlineExceeded,
    FleetError,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node import through
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refused

SPEC = spec(
    FLEET,
    BATCH,
    timeout={"type": "int", "default": 900},
    interval={"type": "float", "default": 2.0},
    connect_timeout={"type": "float", "default": 3.0},
)

_THREADS = 64
#: What says something of the controller and its network alone: no route, a firewall of its own, no file handle left.
_CONTROLLERS_OWN = (errno.ENETUNREACH, errno.ENETDOWN, errno.EPERM, errno.EACCES, errno.EMFILE, errno.ENFILE)


def answers(address: str, port: int, timeout: float) -> tuple[str, str]:
    """Empty where an SSH server greets, else in words what happened instead; and of what kind where that is not the
    node's own silence."""
    try:
        with socket.create_connection((address, port), timeout=timeout) as connection:
            greeting = connection.recv(64)
    except OSError as exc:
        return str(exc) or type(exc).__name__, _kind_of(exc)
    return "" if greeting.startswith(b"SSH-") else f"greeted with {greeting[:20]!r}", ""


def _kind_of(exc: OSError) -> str:
    """A name that nobody knows is a setting, and a resolver or a network that is away a service."""
    if isinstance(exc, socket.gaierror):
        return Unreachable.kind if exc.errno == socket.EAI_AGAIN else ConfigError.kind
    return Unreachable.kind if exc.errno in _CONTROLLERS_OWN else ""


class _Way:
    """To one node: straight, or as OpenSSH would be led by the node's options where nobody answers there."""

    def __init__(self, address: str, port: int, words: Sequence[str] | None) -> None:
        self._address, self._port = address, port
        self._words = None if words is None else [*words, "-p", str(port)]
        self._led: bool | None = None

    def answers(self, timeout: float) -> tuple[str, str]:
        if not self._led:
            problem, kind = answers(self._address, self._port, timeout)
            if not problem or self._words is None or self._led is False:
                return problem, kind
            try:
                self._led = through.is_led(self._words, self._address)
            except FleetError as exc:  # nobody knows whether the silence is the node's own
                return str(exc), exc.kind
            if not self._led:
                return problem, kind
        return through.answers(self._words or (), self._address, timeout)


def wait_for_nodes(params: Mapping[str, Any], ctx: Context) -> Result:
    """Poll all nodes until each has answered or the deadline has passed; a late node is a verdict, no failure.

    ``params["nodes"]``: dicts of host, address, port, and the options of its SSH connection (words). Returns
    ``data["verdicts"]`` by host: ok, seconds, reason, kind.
    """
    nodes = [_target(node) for node in params["nodes"] or []]
    words = {str(node["host"]): node.get("words") for node in params["nodes"] or []}
    ways = {host: _Way(address, port, words[host]) for host, address, port in nodes}
    started = time.monotonic()
    verdicts = {str(node["host"]): _refused(*refused(node)) for node in params["nodes"] or [] if all(refused(node))}
    reasons: dict[str, tuple[str, str]] = {}

    def look() -> int:
        for host, reason in ctx.lifeline.lost().items():
            verdicts[host] = _refused(reason, NotOurs.kind)
        open_hosts = [node for node in nodes if node[0] not in verdicts]
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            found = list(pool.map(lambda node: ways[node[0]].answers(params["connect_timeout"]), open_hosts))
        for (host, address, port), (problem, kind) in zip(open_hosts, found):
            reasons[host] = f"{address} port {port}: {problem}", kind
            if not problem:
                seconds = round(time.monotonic() - started, 1)
                verdicts[host] = {"ok": True, "seconds": seconds, "reason": "", "kind": ""}
        if any(not problem for problem, _kind in found):
            ctx.say(f"{len(verdicts)} of {len(nodes)} nodes answer")
        return len(nodes) - len(verdicts)

    with contextlib.suppress(DeadlineExceeded):  # each late node gets its own verdict below
        ctx.wait(
            look,
            lambda missing: missing == 0 or ctx.check_mode,
            timeout=params["timeout"],
            interval=params["interval"],
            wanted="every node answers over SSH",
        )
    seconds = round(time.monotonic() - started, 1)
    for host, _address, _port in nodes:
        reason, kind = reasons.get(host, ("never asked", ""))
        verdicts.setdefault(host, {"ok": False, "seconds": seconds, "reason": reason, "kind": kind})
    verdicts.update({host: _refused(reason, NotOurs.kind) for host, reason in ctx.lifeline.confirm().items()})
    return Result(changed=False, data={"verdicts": verdicts})


def _refused(reason: str, kind: str) -> dict[str, Any]:
    return {"ok": False, "seconds": 0.0, "reason": reason, "kind": kind}


def _target(node: Mapping[str, Any]) -> tuple[str, str, int]:
    address = node.get("address") or node.get("host")
    if not address:
        raise ConfigError("a node without a name and without an address", wanted="host, or address")
    return str(node.get("host") or address), str(address), int(node.get("port") or 22)
