# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renews what proves that nodes are drained: asks their schedulers again, and tells the ledger. PRIVATE.

A task that is slow, or waits, comes to its write with a proof that is too old. One question serves all whose turn comes
next: those of a batch, or the hosts after this one in the play.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import EVIDENCE_SECONDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import locked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import judged_after, seen_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import doubts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import PERMITS, Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _schedulers as schedulers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds

#: The proof of a host whose turn comes next is renewed with the others from this age on: else its own turn would find
#: it too old a moment later.
_SOON_SECONDS = EVIDENCE_SECONDS / 2
#: So many hosts are asked for beside one that needs it now: to know the settings of each takes a while as well.
BESIDE = 200
_LEDGER = "gpufleet_ledger_url"
#: For so long a scheduler that was silent is not asked again by hosts whose turn comes next: its command ends after as
#: long, and one that answers again is missed for no longer.
_SILENT_SECONDS = 60.0
#: What makes up an error, without the node.
_TELLS = ("what", "address", "wanted", "seen", "do")

#: By host: its node in the ledger, and its newest evidence.
Due = Mapping[str, Mapping[str, Any]]


class Proofs:
    """What one task needs to ask again.

    :param identify: the ledger's id of a host; empty for one that it does not know.
    :param variable: a variable of a named host, None where it is not set.
    :param others: hosts whose turn may come next; only those of the same ledger are asked for.
    :param tell: writes events, of nodes by their ids.
    :param beat: called while another worker asks.
    """

    def __init__(
        self,
        ledger: Callable[[], Ledger],
        *,
        identify: Callable[[str], str],
        variable: Callable[[str, str], Any],
        others: Callable[[], Sequence[str]],
        tell: Callable[[list[tuple[str, Event]]], object],
        beat: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._identify = identify
        self._variable = variable
        self._others = others
        self._tell = tell
        self._beat = beat

    def renew(
        self, hosts: Sequence[str], *, unseen: bool = False, from_age: float = EVIDENCE_SECONDS
    ) -> dict[str, FleetError]:
        """By host, why it could not be asked for; of the others the ledger now has the newest look.

        :param from_age: a proof that is younger needs no renewal.
        :param unseen: also those of which there is no proof, or no look at all.
        """
        with _one_asks(self._beat) as silence:
            if not self._due(hosts, from_age, unseen):
                return {}  # another worker of this run has asked meanwhile
            ours = self._variable(_LEDGER, hosts[0])
            beside = [one for one in self._others() if one not in hosts and self._variable(_LEDGER, one) == ours]
            due = {**self._due(hosts, 0.0, unseen), **self._due(beside, _SOON_SECONDS, unseen)}
            return self._asked(due, hosts, silence)

    def _due(self, hosts: Sequence[str], age: float, unseen: bool = False) -> dict[str, dict[str, Any]]:
        """Those that a proof of that age, or an older one, is there of; unseen: any look counts, and none as well."""
        ids = {host: self._known(host) for host in hosts}
        latest = self._ledger().latest([node for node in ids.values() if node], "evidence")
        now = self._ledger().now()
        found = {host: latest[node] for host, node in ids.items() if node in latest}
        proofs = {host: event for host, event in found.items() if unseen or event["name"] in PERMITS}
        # One from the future is due as well: the clock was set back.
        due = {host: event for host, event in proofs.items() if not 0 <= now - seen_at(event).at < age}
        never = {host: {"node_id": node, "data": {}} for host, node in ids.items() if unseen and node}
        return {**due, **{host: event for host, event in never.items() if host not in found}}

    def _known(self, host: str) -> str:
        try:
            return self._identify(host)
        except FleetError:
            return ""  # told when its own turn comes

    def _asked(self, due: Due, asking: Sequence[str], silence: _Silence) -> dict[str, FleetError]:
        ids = {host: event["node_id"] for host, event in due.items()}
        judged = self._ledger().moment().event
        failed: dict[str, FleetError] = {}
        known = holds(self._ledger(), ids, self._variable, failed)
        due = {host: due[host] for host in known}
        for driver, hosts in schedulers.each(due, lambda host: self._settings(host, due[host]), failed):
            hear = [host for host in asking if host in hosts]
            silent = silence.heard(driver, hear)
            if silent:
                failed.update(dict.fromkeys(hosts, silent))
                continue
            # Before the look: what happens from here on, it may not have seen.
            began = self._ledger().moment()
            moment = {**began.as_data(), **judged_after(judged, began)}
            claims = {name: self._claim(host, known[host]) for host, name in hosts.items()}
            try:
                views = driver.states(list(claims))
                doubted = doubts(driver, views, claims)
            except FleetError as exc:
                failed.update(dict.fromkeys(hosts, exc))
                silence.tell(driver, exc, hear)
                continue
            failed.update({host: doubted[name] for host, name in hosts.items() if name in doubted})
            certain = {host: name for host, name in hosts.items() if name not in doubted}
            seen = {
                host: evidence(views[name], claims[name], scheduler=driver.NAME, moment=moment)
                for host, name in certain.items()
            }
            self._tell([(ids[host], one) for host, one in seen.items()])
        return failed

    def _claim(self, host: str, known: Mapping[str, Any]) -> Claim:
        return Claim.of(known)

    def _settings(self, host: str, event: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """A host that was said to belong to no scheduler needs no settings."""
        none = names.NONE if event["data"].get("scheduler") == names.NONE else None
        return schedulers.settings(self._variable, host, none)


class _Silence:
    """What the ledger is not told: that a scheduler has not answered. Each host would wait for the next answer as long
    again, one wave of workers after the other. So it is told to each host once, and is asked again by who has heard it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def heard(self, driver: Scheduler, hosts: Sequence[str]) -> Unreachable | None:
        """Its silence of just now; none where one of these hosts has heard of it."""
        known = self._known()
        told = known.get(_address(driver))
        if not told or not 0 <= time.monotonic() - told["at"] < _SILENT_SECONDS or set(hosts) & set(told["heard"]):
            return None
        told["heard"] += hosts
        self._write(known)
        return Unreachable(**told["error"])

    def tell(self, driver: Scheduler, exc: FleetError, hosts: Sequence[str]) -> None:
        if isinstance(exc, Unreachable):
            error = {name: getattr(exc, name) for name in _TELLS}
            told = {"at": time.monotonic(), "error": error, "heard": list(hosts)}
            self._write({**self._known(), _address(driver): told})

    def _known(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def _write(self, known: Mapping[str, Any]) -> None:
        with suppress(OSError):  # then each waits for itself
            private.write(str(self._path), json.dumps(known))


def _address(driver: Scheduler) -> str:
    return f"{driver.NAME} {driver.address}"


@contextmanager
def _one_asks(beat: Callable[[], None]) -> Iterator[_Silence]:
    """One worker of this run at a time; whoever waited finds the answer in the ledger, or that there was none."""
    path = Path(C.DEFAULT_LOCAL_TMP) / "gpufleet-proof"
    with private.open_lock(str(path.with_suffix(".lock"))) as lock:
        wait_until(
            lambda: locked(lock), bool, timeout=float("inf"), interval=0.1, wanted="the scheduler's answer", beat=beat
        )
        yield _Silence(path.with_suffix(".json"))
