# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What monitors say of nodes, each cause once; see docs/how-to/react-to-alerts.md."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aiohttp import web

DOCUMENTATION = r"""
short_description: Receive what monitors say of nodes, and hand on each node and cause once.
description:
  - Listens for messages of Alertmanager, of NVSentinel's event exporter, of DCGM's health watches and of Slurm's
    triggers, each at an address that ends with its name, for instance C(/alertmanager).
  - Asks the ledger whether something is to be launched, and writes down there that it is, before it hands an event on.
    So a repetition launches nothing, whoever receives it and whenever this was restarted.
  - Hands on C(gpufleet.do) (V(recycle) or V(look)), C(gpufleet.node) (a host of the inventory, as the ledger has it),
    C(gpufleet.cause), C(gpufleet.source) and C(gpufleet.reason). The last is a stranger's word.
  - Answers 503 where the ledger cannot be asked, so that the monitor sends it again.
  - Ends, and ansible-rulebook with it, where that has read nothing for 20 seconds, as when all its slots for actions
    are taken. What nobody took is answered 503, and is not refused when it is said again.
  - Needs SQLAlchemy beside ansible-rulebook, and psycopg where the ledger is in PostgreSQL.
options:
  host:
    description: The address to listen at.
    type: str
    default: 127.0.0.1
  port:
    description: The port.
    type: int
    required: true
  token_path:
    description:
      - A file whose first line is the bearer token that a monitor has to send in the header C(Authorization).
      - It may be left out only where O(kinds) is one kind, and that is V(dcgm) with O(dcgm_token_path), or
        O(client_ca_path) is set. A certificate does not say whose word it is.
      - With O(dcgm_token_path) it may be left out only where O(kinds) is V(dcgm) alone, as the nodes may have
        certificates as well.
    type: str
  dcgm_token_path:
    description:
      - The same for DCGM's health watches alone, whose sender is on the GPU nodes. With it they are heard by no other
        token, and this one admits nobody else. Without it whoever is root on one node may speak for all monitors.
      - What has the token of O(token_path) in it is refused. Set it for the listeners of the other kinds as well, which
        it tells that the nodes are senders.
    type: str
  certificate_path:
    description: The certificate to show, PEM, and those that signed it. Without it nothing is encrypted.
    type: str
  key_path:
    description: Its key.
    type: str
  client_ca_path:
    description:
      - A monitor has to show a certificate that one of these has signed. Needs O(certificate_path).
      - Without O(token_path) each such certificate speaks for the one kind of O(kinds). So have it sign for the
        machines of that monitor alone.
    type: str
  ledger_url:
    description: The ledger that the playbooks use, as C(gpufleet_ledger_url) names it. The machine's own without it.
    type: str
  kinds:
    description: Who may speak here. All without it.
    type: list
    elements: str
    choices: [alertmanager, nvsentinel, dcgm, slurm]
  node_labels:
    description: Of Alertmanager's alerts the labels that name a node, the first that an alert has.
    type: list
    elements: str
    default: [node, nodename, Hostname, hostname, instance]
  names:
    description:
      - Hosts of the inventory by the name that a monitor calls them, where these differ.
      - Slurm and NVSentinel call a node as its scheduler does. Where the ledger has that name for another machine than
        the host that is called so, nothing is launched until this says which of the two is meant.
    type: dict
    default: {}
  labels:
    description:
      - Labels, each with its value, that an alert of Alertmanager has to have. What has another value, or none, is of
        another fleet. Where one Alertmanager has several, their nodes may be called alike.
      - A series may have such a label as well, and Prometheus adds an external label only to an alert without it. See
        to it that each Prometheus sets its own, as the page on alerts tells.
    type: dict
    default: {}
  again_after:
    description: Seconds until the same is launched once more of a node that was not in service anew since.
    type: float
    default: 86400
  lost_after:
    description: Seconds after which a recycle of which nothing came is launched once more, if it is said again.
    type: float
    default: 1800
  oldest:
    description: Seconds; an event of NVSentinel that is older, for instance out of a backfill, is left alone.
    type: float
    default: 3600
  most:
    description:
      - For how many nodes one kind of monitor has the same launched within O(per) seconds. What else it says meanwhile
        is refused. A switch that fails is no fault of its nodes.
    type: int
    default: 5
  per:
    description: See O(most).
    type: float
    default: 3600
"""

EXAMPLES = r"""
- gpufleet.baremetal.health:
    host: 0.0.0.0
    port: 5051
    token_path: /etc/gpufleet/alerts.token
    certificate_path: /etc/gpufleet/alerts.pem
    key_path: /etc/gpufleet/alerts.key
    ledger_url: postgresql+psycopg://gpufleet@db.example.com/gpufleet
"""

# ansible-rulebook runs this file by its path; what it imports lies in the collection that it is a part of.
_COLLECTIONS = Path(os.path.abspath(__file__)).parents[7]
if (_COLLECTIONS / "ansible_collections").is_dir() and str(_COLLECTIONS) not in sys.path:
    sys.path.append(str(_COLLECTIONS))

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.alertmanager import kept_back
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.desk import Desk, desk
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import RECYCLE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.speakers import (
    general_token,
    own_tokens,
    place,
    tls,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.taken import Answer, opened
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._bound import namesake

LOG = logging.getLogger("gpufleet.baremetal.health")
_LARGEST = 2**20
#: Seconds in which what was handed on is read; a sender waits 30 for its answer.
_PATIENCE = 20.0
#: The same for the first, which comes while its engine of rules starts.
_STARTS = 120.0
_DEAF = "ansible-rulebook reads nothing any more: see EDA_MAX_CONCURRENT_ACTIONS in docs/how-to/react-to-alerts.md"


class Door:
    """One door: who comes in, and what they are answered. One thread asks the ledger, one message after the other."""

    def __init__(self, queue: asyncio.Queue[Any], at: Desk, token: str, tokens: Mapping[str, str]) -> None:
        self._queue, self._desk, self._token, self._tokens = queue, at, token, tokens
        #: Without the filters, which the events of ansible-rulebook go through.
        self._rules: asyncio.Queue[Any] = getattr(queue, "queue", queue)
        self._asker = this_run(os.getpid())
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._turn, self._patience = asyncio.Lock(), _STARTS
        #: Set once, when nobody reads any more.
        self.deaf = asyncio.Event()

    async def heard(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        token = self._tokens.get(kind, self._token)
        if token and not _admits(token, request.headers.get("Authorization", "")):
            return _said(401, {"msg": "the token is missing or another one"})
        if kind not in self._desk.kinds:
            return _said(404, {"msg": f"nobody reads {kind!r} here"})
        try:
            document = json.loads(await request.read())
        except (ValueError, RecursionError):
            return _said(400, {"msg": "the message is no JSON"})
        try:
            found, broke = await self._answers(kind, document)
        except FleetError as exc:
            LOG.error("%s: %s", kind, exc)
            return _said(400 if isinstance(exc, BadAnswer) else 503, {"msg": str(exc)})
        answers = [one.as_dict() for one in found]
        if not await self._handed_on(found):
            return _said(503, {"msg": _DEAF})
        if broke is not None:
            LOG.error("%s: %s", kind, broke)
            return _said(503, {"msg": str(broke), "answers": answers})
        return _said(200, {"answers": answers})

    async def _answers(self, kind: str, document: Any) -> tuple[list[Answer], FleetError | None]:
        """What the ledger wrote down as launched while this was ended is launched by nobody."""
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._thread, self._desk.answers, self._asker, kind, document)
        if await _done(asked):
            if not asked.exception():
                await self._given_back([one for one in asked.result()[0] if not one.refused])
            raise asyncio.CancelledError
        return asked.result()

    async def _handed_on(self, found: list[Answer]) -> bool:
        """Each is read, or none that is left stays written down as launched."""
        taken = [one for one in found if not one.refused]
        for one in found:
            _told(one)
        try:
            async with self._turn:
                await self._each_read(taken)
        finally:
            # Also where the process is ended meanwhile.
            await self._given_back(taken)
        return not taken

    async def _each_read(self, taken: list[Answer]) -> None:
        """What was read is no more among them, also where this is ended meanwhile."""
        while taken and not self.deaf.is_set():
            told = taken[0].as_dict()
            event = {"gpufleet": {name: told[name] for name in told if name != "refused"}}
            put = asyncio.ensure_future(self._queue.put(event))
            read = False
            try:
                await self._until_read(put)
            finally:
                read = self._was_read(put, event)
                if read:
                    del taken[0]
            if not read:
                self.deaf.set()
            self._patience = _PATIENCE

    async def _until_read(self, put: asyncio.Future[None]) -> None:
        """What lies in the queue of one whose reader has ended is launched by nobody."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        await asyncio.wait([put], timeout=self._patience)
        if put.done():
            put.result()
        while not self._rules.empty() and loop.time() < end:
            await asyncio.sleep(0.02)

    def _was_read(self, put: asyncio.Future[None], event: dict[str, Any]) -> bool:
        """What lies there still is taken out: it is given back, and who reads late would launch it as well."""
        whole = put.done() and not put.cancelled() and put.exception() is None
        put.cancel()
        lay = [self._rules.get_nowait() for _one in range(self._rules.qsize())]
        others = [one for one in lay if not isinstance(one, dict) or one.get("gpufleet") != event["gpufleet"]]
        for one in others:
            self._rules.put_nowait(one)
        return whole and len(others) == len(lay)

    async def _given_back(self, taken: list[Answer]) -> None:
        if not taken:
            return
        why = _DEAF if self.deaf.is_set() else "this is ended"
        LOG.error("%s; nothing is launched for %s", why, ", ".join(one.host for one in taken))
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._thread, self._desk.give_back, self._asker, taken)
        ended = await _done(asked)
        try:
            asked.result()
        except FleetError as exc:
            LOG.error("they stay written down as launched: %s", exc)
        if ended:
            raise asyncio.CancelledError


async def _done(asked: asyncio.Future[Any]) -> bool:
    """The ledger's answer is waited for, though whoever asks is ended meanwhile: was that so?"""
    ended = False
    while not asked.done():
        try:
            await asyncio.wait([asked])
        except asyncio.CancelledError:
            ended = True
    return ended


def _told(one: Answer) -> None:
    """A monitor that does not repeat itself has nobody told but this log."""
    less = kept_back(one.said.labels or {})
    if one.refused:
        level = logging.WARNING if less or one.said.do == RECYCLE else logging.INFO
        LOG.log(level, "%(source)s, %(node)s, %(cause)s: nothing is launched: %(refused)s", one.as_dict())
    elif less:
        LOG.warning("%(source)s, %(node)s, %(cause)s: critical, and no recycle by its label gpufleet", one.as_dict())


def _admits(token: str, header: str) -> bool:
    # A byte that is no UTF-8 comes as half a character.
    return hmac.compare_digest(header.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode())


def _said(status: int, told: dict[str, Any]) -> web.Response:
    return web.json_response(told, status=status)


def _look(at: Desk) -> None:
    """What no retry mends is told at once; a database that is away now may be there for the first message."""
    try:
        opened(at.ledger_url).close()
    except Unreachable as exc:
        LOG.warning("%s", exc)


async def _listen(site: web.TCPSite) -> None:
    try:
        await site.start()
    except OSError as exc:
        do = "end who has it, or correct host or port, which a rulebook has from gpufleet_listen and gpufleet_port"
        raise ConfigError("nobody can listen there", address=site.name, seen=str(exc), do=do) from exc


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    at = desk(args, namesake)
    token = general_token(args, at.kinds)
    door = Door(queue, at, token, own_tokens(args, token))
    at_place, context = place(args), tls(args)
    _look(at)
    app = web.Application(client_max_size=_LARGEST)
    app.router.add_post("/{kind}", door.heard)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, *at_place, ssl_context=context))
        await door.deaf.wait()
    finally:
        await runner.cleanup()
    # ansible-rulebook waits for its rules, which read nothing: it would live on without this port.
    asyncio.get_running_loop().call_soon(sys.exit, 1)
    raise Unreachable(_DEAF)
