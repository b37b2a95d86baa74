# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``ledger_store`` on the controller, which alone has the ledger."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import places, rows, upkeep
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.copies import Asked, Judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import digest_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard

#: What makes a file, by the state that is asked for.
_MAKES = {"backed_up": "the backup", "archived": "the archive"}
#: Seconds: a passport's times are written in milliseconds.
_PRECISION = 0.002


class ActionModule(VerbAction):
    NAME = "ledger_store"
    SPEC = upkeep.SPEC
    RULES = upkeep.RULES
    verb = staticmethod(upkeep.ledger_store)

    def _goes_elsewhere(self) -> bool:
        return False  # the ledger is here

    def _looks(self) -> bool:
        return False  # a ledger that is verified, or replaced, is not asked first how late it is

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        url = str(params.get("ledger_url") or "")
        if params["state"] in _MAKES:
            places.check_file(params["path"], _MAKES[params["state"]])
        places.check(url)
        keys = dsse.public_keys(params.get("passport_public_keys") or [])
        dry = bool(self._task.check_mode)
        asked = Asked(url, params, self.run_id, dry, self._say, judge_of(keys, params["state"], self._say))
        result = upkeep.kept(asked)
        return {"changed": result.changed, "events": [], **result.data}


def judge_of(keys: Mapping[str, Any], state: str, say: Callable[[str], None]) -> Judge:
    """What is wrong with the passports of a ledger, for whoever asks for this state."""

    def judge(conn: Any) -> list[str]:
        altered, unknown = _bad_passports(conn, keys)
        if state != "restored":
            return [*altered, *unknown]
        for line in unknown:  # a key that was taken away since is no reason to lose a backup
            say(line)
        return altered

    return judge


def _bad_passports(conn: Any, keys: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Those that are not what was signed; and with keys those in force that none of them has signed.

    Keys change, and the passports of before stay: of each node the newest one counts, until it ends.
    """
    altered: dict[str, list[int]] = {}
    newest: dict[str, tuple[str, int]] = {}
    now = time.time()
    for row in (row for part in rows.parts(conn, "passports") for row in part):
        why, of_another = _why_bad(row, keys)
        if why and not of_another:
            altered.setdefault(why, []).append(int(row["id"]))
        newest[row["node_id"]] = (why if of_another and row["expires"] > now else "", int(row["id"]))
    unknown: dict[str, list[int]] = {}
    for why, number in newest.values():
        if why:
            unknown.setdefault(why, []).append(number)
    return _told(altered), _told(unknown)


def _told(bad: Mapping[str, list[int]]) -> list[str]:
    return [f"{len(found)} passports: {why}, the first is number {min(found)}" for why, found in bad.items()]


def _why_bad(row: Mapping[str, Any], keys: Mapping[str, Any]) -> tuple[str, bool]:
    """In words, and whether it is but of a signer who is not known."""
    try:
        envelope = json.loads(row["envelope"])
        if digest_of(envelope) != row["digest"]:
            return "it is another one than its digest says", False
        if said := _said_otherwise(row, json.loads(dsse.payload_of(envelope))):
            return f"its row says of {said} what was not signed", False
        if keys:
            dsse.verify(envelope, keys)
    except TrustError as exc:
        return exc.what, exc.details.get("finding") == dsse.UNKNOWN_KEY
    except ValueError:
        return "", False  # said of its row already
    return "", False


def _said_otherwise(row: Mapping[str, Any], statement: Any) -> str:
    """What a row says of its passport otherwise than the passport: by the row it is found, and found due."""
    predicate = statement.get("predicate") if isinstance(statement, Mapping) else None
    if not isinstance(predicate, Mapping):
        return ""
    owner = predicate.get("node")
    for name in ("issued", "expires"):
        if name in predicate and abs(_at(predicate[name]) - float(row[name])) > _PRECISION:
            return name
    known = isinstance(owner, Mapping) and owner.get("id") not in (None, row["node_id"])
    return "its node" if known else ""


def _at(text: Any) -> float:
    try:
        return seconds(str(text))
    except ConfigError:
        return math.inf
