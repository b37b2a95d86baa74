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
import ssl
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
      - Without it O(client_ca_path) is needed. With O(dcgm_token_path) it may be left out only where O(kinds) is
        V(dcgm) alone.
    type: str
  dcgm_token_path:
    description:
      - The same for DCGM's health watches alone, whose sender is on the GPU nodes. With it they are heard by no other
        token, and this one admits nobody else. Without it whoever is root on one node may speak for all monitors.
      - What has the token of O(token_path) in it is refused.
    type: str
  certificate_path:
    description: The certificate to show, PEM, and those that signed it. Without it nothing is encrypted.
    type: str
  key_path:
    description: Its key.
    type: str
  client_ca_path:
    description: A monitor has to show a certificate that one of these has signed. Needs O(certificate_path).
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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.dcgm import NAME as DCGM
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.desk import Desk, desk
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import RECYCLE
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
        loop = asyncio.get_running_loop()
        try:
            found, broke = await loop.run_in_executor(self._thread, self._desk.answers, self._asker, kind, document)
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
            if taken:
                await self._given_back(taken)
        return not taken

    async def _each_read(self, taken: list[Answer]) -> None:
        """What was read is no more among them."""
        while taken and not self.deaf.is_set():
            told = taken[0].as_dict()
            event = {"gpufleet": {name: told[name] for name in told if name != "refused"}}
            try:
                await asyncio.wait_for(self._read_by_the_rules(event), self._patience)
            except asyncio.TimeoutError:
                self.deaf.set()
            else:
                del taken[0]
                self._patience = _PATIENCE

    async def _read_by_the_rules(self, event: dict[str, Any]) -> None:
        """What lies in the queue of one whose reader has ended is launched by nobody."""
        await self._queue.put(event)
        inner = getattr(self._queue, "queue", self._queue)
        while not inner.empty():
            await asyncio.sleep(0.02)

    async def _given_back(self, taken: list[Answer]) -> None:
        why = _DEAF if self.deaf.is_set() else "this is ended"
        LOG.error("%s; nothing is launched for %s", why, ", ".join(one.host for one in taken))
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._desk.give_back, self._asker, taken)
        except FleetError as exc:
            LOG.error("they stay written down as launched: %s", exc)


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


def _token(args: dict[str, Any]) -> str:
    """Whoever may speak here has jobs launched: an open door is none."""
    path = args.get("token_path")
    if not path:
        if args.get("client_ca_path"):
            _demand_one_kind(args)
            return ""
        raise ConfigError("neither token_path nor client_ca_path says who may send alerts", do="set one of them")
    return _read(path)


def _demand_one_kind(args: dict[str, Any]) -> None:
    """A node has a certificate to speak for DCGM: with that alone it would be any other monitor as well."""
    if args.get("dcgm_token_path") and list(args.get("kinds") or ()) != [DCGM]:
        raise ConfigError(
            "with dcgm_token_path and without token_path a node's certificate would speak for all other monitors",
            do="set token_path, or kinds to [dcgm]",
        )


def _tokens(args: dict[str, Any], general: str) -> dict[str, str]:
    """Of the kinds that have one of their own, which is none where all others have it as well."""
    if not args.get("dcgm_token_path"):
        return {}
    own = _read(args["dcgm_token_path"])
    if own == general:
        raise ConfigError(
            "token_path and dcgm_token_path have one token, by which root of a GPU node would speak for all monitors",
            address=str(args["dcgm_token_path"]),
            do="write another token into the file of dcgm_token_path",
        )
    return {DCGM: own}


def _read(path: str) -> str:
    token = Path(path).read_text(encoding="utf-8").partition("\n")[0].strip()
    if len(token) < 16:
        raise ConfigError("the token is too short to be one", address=str(path), wanted="16 characters or more")
    return token


def _tls(args: dict[str, Any]) -> ssl.SSLContext | None:
    if not args.get("certificate_path"):
        if args.get("client_ca_path"):
            raise ConfigError("client_ca_path needs a certificate_path", do="set it")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args["certificate_path"], args.get("key_path"))
    if args.get("client_ca_path"):
        context.load_verify_locations(args["client_ca_path"])
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _look(at: Desk) -> None:
    """What no retry mends is told at once; a database that is away now may be there for the first message."""
    try:
        opened(at.ledger_url).close()
    except Unreachable as exc:
        LOG.warning("%s", exc)


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    at = desk(args, namesake)
    token = _token(args)
    door = Door(queue, at, token, _tokens(args, token))
    _look(at)
    app = web.Application(client_max_size=_LARGEST)
    app.router.add_post("/{kind}", door.heard)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        place = (args.get("host") or "127.0.0.1", int(args["port"]))
        await web.TCPSite(runner, *place, ssl_context=_tls(args)).start()
        await door.deaf.wait()
    finally:
        await runner.cleanup()
    # ansible-rulebook waits for its rules, which read nothing: it would live on without this port.
    asyncio.get_running_loop().call_soon(sys.exit, 1)
    raise Unreachable(_DEAF)
