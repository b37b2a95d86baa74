# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each node of a fleet stands, read from the ledger in a handful of queries. PRIVATE to the collection."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import slower
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import IDENTITY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.climbed import climbed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.flaps import FAILED, Limit, flapping
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lease import holders, live
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import RECORD
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import newest_holds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.remedies import (
    BURN_IN,
    BURNED_IN,
    SOAKS,
    left,
    tries,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import (
    FOREIGN,
    OURS,
    UNSERVED,
    Seen,
    together,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.stopped import (
    UNSEEN,
    judged,
    newest_of,
    not_seen,
    telling,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import as_adopted, since_retired
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.way import way
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moved import EVENTS, KIND
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import ADOPT, COMMAND, SOMEBODY_ELSES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import KEEP, kind_of, why_of

#: The variable that says for whom a run works, and a name that no shell and no parser of Ansible takes apart.
FOR_TENANT, _PLAIN = "gpufleet_for_tenant", re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

#: Seconds before its end at which a passport is due where nobody says otherwise.
_DUE_WITHIN = 14 * 86400
SPEC = spec(
    FLEET,
    hosts={"type": "list", "elements": "str"},
    report={"type": "bool", "default": False},
    title={"type": "str", "default": "Fleet"},
    by_cause={"type": "bool", "default": False},
    path={"type": "path"},
    expire_within={"type": "int", "default": _DUE_WITHIN},
    issued_within={"type": "int", "default": 0},
    ask_scheduler={"type": "bool", "default": True},
    proof={"type": "bool", "default": False},
    foretell={"type": "list", "elements": "str", "default": []},
    foretell_way={"type": "list", "elements": "str"},
    noted={"type": "list", "elements": "str", "default": []},
    settings_of={"type": "list", "elements": "str", "default": []},
)
#: Of what is written down of all that.
REPORT = spec(
    FLEET,
    path={"type": "path"},
    data_path={"type": "path"},
    metrics_path={"type": "path"},
    days={"type": "int", "default": 30},
    details={"type": "int", "default": 200},
    hosts=SPEC["hosts"],
    title=SPEC["title"],
    expire_within=SPEC["expire_within"],
    ask_scheduler=SPEC["ask_scheduler"],
)

_AGAIN = "ansible-playbook gpufleet.baremetal.{playbook} -i INVENTORY --limit {host}"
#: What a person does next, by lifecycle state; empty where nothing is to be done.
_NEXT = {
    "discovered": "day0_bringup",
    "enrolled": "day0_bringup",
    "imaging": "",
    "validating": "",
    "admitted": None,
    "draining": "day2_recycle",
    "drained": "day2_recycle",
    "wiping": "day2_recycle",
    "quarantined": "day2_recycle",
    "retired": None,
}

#: As the playbook passports names itself in the ledger, why it took a node where nobody says otherwise (older releases
#: wrote no more), and the states in which it goes on with one.
PASSPORTS = "passports"
RENEWAL = "passport renewal"
#: States in which a deployment may be unfinished, or what follows from it.
_UNFINISHED = frozenset({"imaging", "validating"})
#: Whoever took it there may have said with the state whether it failed.
_OUT_FOR_WORK = frozenset({"draining", "drained"})
#: What a look finds whose connection died (the verb image_verify).
_UNREACHED = "unreachable"
_RENEWED_FROM = frozenset({"draining", "drained", "validating"})
_RECYCLE = _AGAIN.replace("{playbook}", "day2_recycle")
#: What recycles a node of which nothing but the one who says so speaks for it.
_TAKEN_UP = f"{_RECYCLE} -e day2_recycle_all=true"
_RENEW = f"{_AGAIN} -e passports_renew=true".replace("{playbook}", PASSPORTS)
#: What takes a node back that a person keeps: no run does of its own accord.
_GIVEN_BACK = f"{_AGAIN} -e maintenance=off".replace("{playbook}", "maintenance")


def status(
    ledger: Ledger,
    nodes: Mapping[str, str],
    run_id: str = "",
    expire_within: float = 0.0,
    issued_within: float = 0.0,
    *,
    seen: Mapping[str, Seen] | None = None,
    asker: Holder | None = None,
    unproven: Callable[[str, str, Mapping[str, Any]], str] = lambda host, node_id, one: "",
    foreseen: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    soaking: Collection[str] = (),
    limits: Mapping[str, Limit] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """Where each node stands, by host name, with the keys that the module fleet_status documents.

    :param nodes: node id by host name, empty where the ledger never saw it. soaking: ids whose soak has no known end.
    :param expire_within, issued_within: seconds; within them a passport that ends is due, and one issued is fresh.
    :param seen: by host name, what its scheduler says; a host that is missing there is told by the ledger alone.
    :param run_id, asker: the run that asks, which sees of runs on its machine that they are dead. limits: see flaps.
    :param unproven: why no renewal can sign a host's passport. foreseen: what a run in check mode would have recorded.
    """
    ids = list(filter(None, nodes.values()))
    states, stopped = ledger.latest(ids, "state"), ledger.latest(ids, "note", ["stopped"])
    turned = newest_of(holds := newest_holds(ledger, ids), ledger.latest(ids, "named"), ledger.latest(ids, IDENTITY))
    looks, parts = (ledger.latest(ids, "verdict", [gate]) for gate in ("image_verify", "hardware_verify"))
    admitted, imaging, now = since_retired(ledger, ids, "admitted"), _imaged_there(ledger, ids), ledger.now()
    adopted, tried, slow, found = as_adopted(ledger, ids), tries(ledger, ids), slower.outliers(ledger, ids), {}
    orders, unseen, again = _orders(ledger, nodes, seen or {}), not_seen(ledger, ids), climbed(ledger, tried, states)
    passports, leases, flaps = ledger.passport_times(ids), holders(ledger, ids), flapping(ledger, ids, limits)
    for host, node_id in nodes.items():
        newest = {"state": states.get(node_id), "stopped": stopped.get(node_id), **(foreseen or {}).get(host, {})}
        one = _one(host, node_id, newest["state"], node_id in admitted, holds.get(node_id))
        lease = live(leases.get(node_id), now, asker)
        one.update(lease=lease, busy=lease not in ("", run_id), hardware=judged(parts.get(node_id)))
        one.update(adopted=node_id in adopted, outlier=slower.since(slow.get(node_id), imaging.get(node_id)))
        _placed(host, one, (seen or {}).get(host), orders.get(node_id, ""), run_id)
        _dated(one, passports.get(node_id), now + expire_within, now - issued_within)
        one.update(unproven=unproven(host, node_id, one), flaps=flaps.get(node_id, ""))
        one.update(left(one, tried.get(node_id, 0), again.get(node_id), newest["state"], soaks=node_id in soaking))
        one["next"] = _before_others(one, expire_within).format(host=host) or one["next"]
        one.update(_noted(host, one, telling({UNSEEN: unseen.get(node_id), **newest}, run_id, turned.get(node_id, 0))))
        one.update(_deployment(one["state"], imaging.get(node_id), looks.get(node_id)))
        found[host] = {**one, "way": way(one)}
    return found


def _imaged_there(ledger: Ledger, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The newest deployment of each at the provisioner that has it: none is waited for that another one was told of."""
    gone = ledger.latest(ids, KIND, EVENTS)
    imaging = since_retired(ledger, ids, "imaging")
    return {one: event for one, event in imaging.items() if event["id"] > gone.get(one, {"id": 0})["id"]}


def _dated(one: dict[str, Any], times: tuple[float, float] | None, due: float, fresh: float) -> None:
    one.update(_passport(one["state"], times, due, fresh))
    # Its passport says little, and no renewal adds to it: of a node that we never imaged no gate knows since when.
    one["passport_due"] &= not one["adopted"]


def _passport(state: str, times: tuple[float, float] | None, due: float, fresh: float) -> dict[str, Any]:
    issued, ends = times or (0.0, 0.0)
    return {
        "passport_expires": utc(ends) if times else "",
        "passport_due": state == "admitted" and ends <= due,
        "passport_fresh": issued > fresh,
    }


def _deployment(state: str, imaging: Mapping[str, Any] | None, look: Mapping[str, Any] | None) -> dict[str, Any]:
    """The newest one, and whether a run goes on with it."""
    if imaging is None:
        return {}
    deploy_id = str(imaging["data"].get("deploy_id") or "")
    goes_on = state in _UNFINISHED and not _missed(imaging, look)
    return {"deploy_id": deploy_id, "deploy_resume": deploy_id if goes_on else "", "imaging_at": imaging["at"]}


def _missed(imaging: Mapping[str, Any], look: Mapping[str, Any] | None) -> bool:
    """Has the newest look not found that this deployment reached the node? To wait for it again finds the same. A
    connection that died has looked at nothing: whether the node answers is what a run waits for."""
    if look is None or look["id"] < imaging["id"]:
        return False
    cells = [check for check in look["data"].get("checks") or [] if check.get("id") == "deployment"]
    unread = all(cell.get("verdict") == "inconclusive" and cell.get("measured") is None for cell in cells)
    if unread and any(finding.get("id") == _UNREACHED for finding in look["data"].get("findings") or []):
        return False
    return any(cell.get("verdict") != "pass" for cell in cells)


def _days(expire_within: float) -> str:
    """The playbook must ask for as many days as the list did, or it finds the node not due."""
    return "" if expire_within <= _DUE_WITHIN else f" -e passports_days={ceil(expire_within / 86400)}"


def _before_others(one: Mapping[str, Any], expire_within: float) -> str:
    """What goes before the next command of the node's state; empty where nothing does."""
    if one["kept"]:
        return _GIVEN_BACK
    if one["adopted"] and one["served"] == "yes" and one["state"] != "admitted":
        return COMMAND  # who resumed it has told the scheduler alone
    if one["left"] in (BURNED_IN, SOAKS):
        return "" if one["left"] == BURNED_IN else _AGAIN.replace("{playbook}", BURN_IN)
    if one["left"] or one["unproven"]:
        return _TAKEN_UP
    if one["adopted"] and one["state"] == "admitted":
        return _TAKEN_UP  # what was found of it before day 2 looked need not be found again
    return _RENEW + _days(expire_within) if one["passport_due"] else ""


def _noted(host: str, one: Mapping[str, Any], note: Mapping[str, Any] | None) -> dict[str, Any]:
    """Why the newest run went no further, and the next command then; nothing where that is told already."""
    if one["stopped"]:
        return {}
    data = note["data"] if note is not None else {}
    if not data:
        return {"stopped": ""}
    stranger, following = data.get("playbook") == ADOPT, _after_a_stop(host, one["next"], data)
    return {"stopped": str(data["reason"]), "stranger": stranger, "next": following}


def _after_a_stop(host: str, otherwise: str, note: Mapping[str, Any]) -> str:
    """No playbook but the one that adopts it goes on with a node that works for others."""
    return COMMAND.format(host=host) if note.get("playbook") == ADOPT else otherwise or _again(host, note)


def _again(host: str, note: Mapping[str, Any]) -> str:
    """What was stopped before it did anything, once more. A renewal that was asked for is not due by itself."""
    if note.get("playbook") == PASSPORTS:
        return f"{_RENEW.format(host=host)} -e passports_all=true"
    return _AGAIN.format(playbook="day2_recycle", host=host)


def _orders(ledger: Ledger, nodes: Mapping[str, str], seen: Mapping[str, Seen]) -> dict[str, str]:
    """By id of a node that we hold, why the newest run wanted it: the scheduler may have written over our words, and a
    run that was killed after its order did not come to note them."""
    held = [nodes[host] for host, one in seen.items() if one.owner == OURS and nodes.get(host)]
    latest = ledger.latest(held, "intent", ["scheduler_node"]) if held else {}
    return {node_id: str((event["data"].get("options") or {}).get("why") or "") for node_id, event in latest.items()}


def _of_a_renewal(why: str) -> bool:
    """The playbook begins with that word, whatever reason a person adds; a scheduler may append to it."""
    return why == RENEWAL or why.startswith((f"{RENEWAL}:", f"{RENEWAL} "))


def _placed(host: str, one: dict[str, Any], seen: Seen | None, order: str, run_id: str) -> None:
    """What its scheduler says beside the ledger, and what follows from the two.

    :param order: why the newest run that held it wanted it.
    """
    told = together(one, seen, run_id)
    one.update(told)
    if told.get("next"):
        one["next"] = told["next"].format(host=host)
    if seen is not None and seen.stranger:
        one["stranger"] = True
        one["stopped"] = f"{SOMEBODY_ELSES}. Seen: its scheduler has it as {seen.native}"
        one["next"] = COMMAND.format(host=host)
    if one["recorded"] == one["state"]:
        return
    if one["state"] == UNSERVED and one["held_by"] != FOREIGN:
        one["next"] = _TAKEN_UP.format(host=host)
    if one["held_by"] == OURS:
        one["renewing"] = _of_a_renewal(one.pop("hold_why") or why_of(one["hold"]) or order)
        one["next"] = (_RENEW if one["renewing"] else _RECYCLE).format(host=host)


#: What of a node may be said beside that, and is empty where it is not.
_UNSAID = (
    *("served", "held_by", "left", "hardware", "outlier", "unheard", "unproven", "tenant", "lease", "stopped"),
    *("deploy_id", "deploy_resume", "foretold"),
)


def _one(
    host: str,
    node_id: str,
    event: Mapping[str, Any] | None,
    admitted_before: bool,
    hold: Mapping[str, Any] | None,
) -> dict[str, Any]:
    state = event["name"] if event else "discovered"
    data = event["data"] if event else {}
    token = str(hold["data"].get("hold_token") or "") if hold and hold["name"] == "taken" else ""
    return {
        **dict.fromkeys(_UNSAID, ""),
        "node_id": node_id,
        "state": state,
        "recorded": state,
        "event": event["id"] if event else 0,
        "since": utc(event["at"]) if event else "",
        "run": event["run_id"] if event else "",
        "reason": str(data.get("reason") or ""),
        "remedy": str(data.get("remedy") or ""),
        "attempts": 0,
        "flaps": "",
        "failing": state in _OUT_FOR_WORK and data.get(FAILED) is True,
        "admitted_before": admitted_before,
        "adopted": False,
        "stranger": False,
        "unrecorded": state == "admitted" and data.get(RECORD) == "absent",
        "hold": token,
        "kept": why_of(token) if kind_of(token) == KEEP else "",
        "renewing": renewing(state, data),
        **_passport("", None, 0.0, 0.0),
        "busy": False,
        "imaging_at": 0.0,
        "way": [],
        "next": next_command(host, state, admitted_before, data),
    }


def not_told(host: str, why: str) -> dict[str, Any]:
    """A host whose ledger cannot be read, or does not say which of its nodes this is. It is no new one: nothing is
    to be done with it before that is known."""
    unknown = {"state": "unknown", "recorded": "unknown", "stopped": why, "next": ""}
    return {**_one(host, "", None, False, None), **unknown}


def for_tenant(tenant: str) -> str:
    """What a person adds to a command of ansible-playbook that works for this tenant, whose name may be any text: a
    shell and Ansible each take it apart."""
    plain = _PLAIN.fullmatch(tenant)
    return f"-e {FOR_TENANT}={tenant}" if plain else "-e " + shlex.quote(json.dumps({FOR_TENANT: tenant}))


def of_tenant(one: Mapping[str, Any], tenant: str, stranger: str) -> dict[str, Any]:
    """:param tenant: whose node it is: each run that touches it has to say that it works for them. :param stranger: the
    same where this run does not."""
    named = f"{one['next']} {for_tenant(tenant)}" if tenant and one["next"] else one["next"]
    return {**one, "tenant": stranger, "next": named}


def on_its_way(host: str) -> str:
    """What brings a node on that has left one provisioner and is not at the other one yet."""
    return _AGAIN.format(playbook="migrate_provisioner", host=host) + " -e @MIGRATE_TO"


def renewing(state: str, data: Mapping[str, Any]) -> bool:
    """Did a renewal of its passport leave it so? Then it goes on as one, which images nothing.

    :param data: what was recorded with the state.
    """
    return state in _RENEWED_FROM and (data.get("playbook") == PASSPORTS or data.get("reason") == RENEWAL)


def next_command(host: str, state: str, admitted_before: bool, data: Mapping[str, Any]) -> str:
    """The command that takes the node on from here; empty where there is nothing to do."""
    if renewing(state, data):
        return _RENEW.format(host=host)
    playbook = _NEXT.get(state, "day0_bringup")
    if data.get("playbook") == BURN_IN and state in ("draining", "drained"):
        playbook = "readmit"
    if playbook is None:
        return ""
    if not playbook:
        playbook = "day2_recycle" if admitted_before else "day0_bringup"
    return _AGAIN.format(playbook=playbook, host=host)


def utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def known_hosts(requested: Sequence[str] | None, batch: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(requested or batch))
