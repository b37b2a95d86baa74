# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans, begins, pauses and resets waves over ledger and schedulers; see the module of the same name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action.fleet_status import ActionModule as FleetStatus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order, limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lease import working
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown as masked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import known_hosts, utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import (
    begun,
    breaker,
    budget,
    elsewhere,
    ended,
    plan,
    rollout,
    shown,
    tries,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.specs import RULES, SPEC, refuse
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _places as places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _wave_members as wave_members
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _wave_window as window
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._services import fleet

_BESIDE = "its domains have no room beside the others of this wave: run it again for this one"
#: What to do where waves were broken off.
_AGAIN = "When that is mended, run it again"
_RESET = (
    "When that is mended, say so, and {what} on: ansible-playbook gpufleet.baremetal.waves"
    ' -i INVENTORY -e waves=reset -e \'{{"waves_why": "..."}}\''
)


class ActionModule(FleetStatus):
    NAME = "fleet_plan"
    SPEC = SPEC
    RULES = RULES

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        refuse(params)
        self._limits = budget.limits(params["budgets"])
        failures = budget.limit(params["failures"], "failures")
        recent = params["recent_failures"], params["recent_hours"]
        self._rules = breaker.Rules(failures, params["same_finding"], *recent)
        self._windows = window.windows(params["windows"])
        self._seen: dict[str, Seen] = {}
        # Whether a passport ends is no matter of a plan.
        params.update({**self.unasked(), "expire_within": 0})
        return params

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        every = self._vars.get("ansible_play_hosts_all") or [self._host]
        self._hosts = known_hosts(params["hosts"], every)
        # What others take out of service counts, whatever the play is limited to.
        self._whole = fleet(self._vars, self.host_var) or self._hosts
        self._fleet = in_order([*known_hosts(params["fleet"], self._whole), *self._hosts])
        unknown = [host for host in self._fleet if host not in self._vars["hostvars"]]
        if unknown:
            raise ConfigError(f"no such host in the inventory: {', '.join(unknown)}", do="correct hosts or fleet")
        self._services = frozenset(self._fleet).difference(self._whole)
        self._one_ledger()
        result = _STATES[params["state"]](self)
        result["lines"] = [masked(line, self._secrets) for line in result["lines"]]
        if params["report"]:
            display.display("\n" + "\n".join(result["lines"]) + "\n")
        if "halted" in result:
            halted = masked(result["halted"], self._secrets)
            result["ansible_stats"] = shown.artifact(halted, broken_off=result["broken_off"])
        return {"changed": False, "events": [], **result}

    def _one_ledger(self) -> None:
        groups, unread = self._by_ledger([host for host in self._fleet if host not in self._services])
        if len(groups) > 1:
            raise ConfigError(
                "a plan is over one ledger, and these hosts have several",
                wanted="one gpufleet_ledger_url for all",
                seen=", ".join(sorted(f"{hosts[0]} and {len(hosts) - 1} others" for hosts in groups.values())),
                do="plan for the hosts of one ledger: give hosts and fleet",
            )
        if unread and not groups:
            raise next(iter(unread.values()))

    def _look(self, ids: Mapping[str, str]) -> dict[str, Seen]:
        self._seen = super()._look(ids)
        return self._seen

    # -- what stands -------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Where the fleet stands now, who is paused, and what other runs are about to take."""
        self._nodes = self._told(self._fleet)
        ids = {host: str(one["node_id"]) for host, one in self._nodes.items() if one["node_id"]}
        known = frozenset(ids.values())
        events = self.ledger().latest(list(known), ended.KIND, (ended.PAUSED, ended.RESUMED))
        everybody = {host: ids.get(host, "") for host in self._nodes}
        self._paused = {host: _told_pause(event) for host, event in ended.paused(everybody, events).items()}
        waves = begun.stand(self._waves())
        self._seen_waves = {one["id"] for one in waves}
        self._places = places.newest(self.ledger(), ids) if not self._limits.keys().isdisjoint(places.KEYS) else {}
        self._others = self._of_others(known)
        self._count(waves)
        self._judge({node_id: host for host, node_id in ids.items()}, waves)

    def _judge(self, hosts: Mapping[str, str], waves: Collection[begun.Event]) -> None:
        """What the waves before have shown, of this run and as far as they count of others."""
        known = frozenset(hosts)
        mine = {hosts[one["node_id"]]: one for one in waves if one["run_id"] == self.run_id and one["node_id"] in hosts}
        self._images = self._declared() if self._params["rollout"] else frozenset()
        self._tries: list[str] = []
        said = begun.mended(self.ledger(), known)
        own = ended.ended(mine, self._nodes, begun.stopped(self.ledger(), mine))
        # What this run has begun is judged as its own; what it gave back again is as it was before.
        pasts = {hosts[node]: past for node, past in self._pasts(known, said).items()}
        earlier = {host: past for host, past in pasts.items() if host not in mine}
        away: rollout.Gone = {}
        if self._images:
            away = rollout.gone(self.ledger(), known, min(self._images), said)
            awaited = self._promises(begun.waited_for(waves, said))
            own = rollout.with_own(own, pasts)
            self._before = rollout.with_earlier(own, earlier, self._nodes, away)
            self._tries = tries.here(earlier, self._before.through, self._nodes, awaited)
            self._tries += tries.away(away, working(self.ledger(), list(away), self._run_as), awaited)
        else:
            self._before = rollout.with_plain(own, earlier, self._nodes) if self._params["remember"] else own
        serving = (host for host in self._before.failed if self._nodes.get(host, {}).get("state") == "admitted")
        self._before = replace(self._before, serving=frozenset(serving))
        came = {host: (past, str(self._nodes[host]["state"])) for host, past in pasts.items()}
        came.update({name: (past, "") for name, past in away.values()})
        self._came = breaker.shown(own, {host: float(wave["at"]) for host, wave in mine.items()}, came)

    def _pasts(self, known: Collection[str], said: begun.Mended) -> dict[str, rollout.Past]:
        """What became of the nodes that waves took: for the image; without a roll-out, of late, or ever."""
        if self._images:
            return rollout.remembered(self.ledger(), known, min(self._images), said)
        since = 0.0 if self._params["remember"] else self.ledger().now() - self._rules.seconds
        return rollout.of_late(self.ledger(), known, said, run=self.run_id, since=since)

    def _declared(self) -> frozenset[str]:
        """The images that these hosts are to run. :raises ConfigError: for one that could not be told from others."""
        images = {host: rollout.image_of(self.host_var("gpufleet_image", host)) for host in self._hosts}
        rollout.demand(images)
        return frozenset(images.values())

    def _image(self, host: str) -> str:
        """Empty where nobody can tell: a wave without a roll-out needs none."""
        try:
            return rollout.image_of(self.host_var("gpufleet_image", host))
        except ConfigError:
            return ""

    def _waves(self) -> list[begun.Event]:
        """Those of this run, and what others began so lately that they may not have come to it."""
        since = self.ledger().now() - ended.PROMISED_SECONDS
        return begun.recent(self.ledger(), self.ledger().everybody(), run=self.run_id, since=since)

    def _count(self, waves: Collection[begun.Event]) -> None:
        """Who is out of service, with those whom another run is about to take."""
        self._taken = self._promises(waves)
        nodes = {host: one for host, one in self._nodes.items() if host not in self._services}
        self._own = wave_members.members(nodes, self._seen, self._taken, self._limits, self._domain)
        others = elsewhere.members(self._others, self._taken, self._limits)
        self._members = elsewhere.beside(self._own, others)
        self._out_elsewhere = sorted(one.host for one in others if one.out)
        self._rooms = budget.rooms(self._members, self._limits, others)

    def _of_others(self, known: Collection[str]) -> list[elsewhere.Other]:
        """Those of other inventories, unless the budgets are for these hosts alone."""
        part = self._params["fleet"] is not None or not self._params["elsewhere"]
        return [] if part else elsewhere.others(self.ledger(), known)

    def _tell_places(self) -> None:
        """Where these nodes are, for whoever has them not in his inventory."""
        ids = {node.host: str(self._nodes[node.host]["node_id"]) for node in self._own}
        told = elsewhere.placed(self.ledger(), list(ids.values()))
        known = {host: told[node] for host, node in ids.items() if node in told}
        new = elsewhere.to_tell((node for node in self._own if ids[node.host]), known, self._limits)
        if new and not self._task.check_mode:
            self._tell(list(new), elsewhere.PLACED, lambda host: {"domains": new[host]})

    def _domain(self, key: str, host: str) -> Any:
        """A variable of the host; of its place in the network, else what was seen last."""
        own = self.host_var(key, host)
        return places.domains(key, self._places.get(host)) if own in (None, "") and key in places.KEYS else own

    def _promises(self, waves: Collection[begun.Event]) -> dict[str, str]:
        """By id of a node, the run that is about to take it."""
        states = {str(one["node_id"]): int(one["event"]) for one in self._nodes.values()}
        states.update({one.node_id: one.event for one in self._others})
        return ended.promised(waves, states, self._run_as, self.ledger().now())

    def _left(self) -> dict[str, str]:
        return wave_members.refused(self._nodes, self._hosts, self._paused, self._taken)

    def _closed(self) -> str:
        """Why no wave may begin now, whoever would be in it."""
        everybody = set(self._hosts) <= set(self._paused)
        return (
            (next(iter(self._paused.values()), "") if everybody else "")
            or window.closed(self._windows, self.ledger().now())
            or self._broken_off()
        )

    def _broken_off(self) -> str:
        """Why what the waves before have shown lets no further one begin, with what they have in common."""
        images = ", ".join(sorted(self._images))
        halted = ended.halted(self._before, self._rules.failures)
        lasts = not halted or bool(images) or self._params["remember"]
        halted = halted or breaker.halted(self._came, self._rules, self.ledger().now(), images)
        hosts = self._before.failed or [host for host, one in self._came.items() if one.failed]
        failed = {host: self._nodes[host] for host in hosts if host in self._nodes}
        what = f"the roll-out of {images} goes" if images else "waves go"
        mended = _RESET.format(what=what) if lasts else _AGAIN
        return f"{'; '.join(filter(None, (halted, shown.shared(failed))))}. {mended}" if halted else ""

    def _due(self, left: Mapping[str, str]) -> list[budget.Member]:
        return plan.of_hosts(self._members, [host for host in self._hosts if host not in left])

    # -- the verbs ---------------------------------------------------------------------------------------------

    def _planned(self) -> dict[str, Any]:
        self._read()
        self._tell_places()
        left = self._left()
        growth = self._params["growth"]
        # A roll-out goes on at the size at which it was left.
        first = max(self._params["canary"], int(self._before.size * growth))
        made = plan.planned(self._due(left), self._rooms, first, growth, self._before.unfinished)
        halted = self._closed()
        told = self._answer(made.waves, {**left, **made.left}, halted)
        events = [
            self._event(host, ended.PLANNED, {"wave": number, "of": len(made.waves)})
            for number, wave in enumerate(made.waves, 1)
            for host in wave
        ]
        return {**told, "events": self._halts(halted) if halted else events}

    def _begun(self) -> dict[str, Any]:
        """The part of these hosts that may go now. Where the first ones have not shown yet that it works, no more than
        the canary may; a check writes nothing, so nothing shows."""
        self._read()
        self._tell_places()
        left, halted = self._left(), self._closed()
        sure = self._before.sure or bool(self._task.check_mode)
        due = plan.in_turn(self._due(left), self._before.unfinished)
        wave = (
            ()
            if halted or self._waits(sure)
            else plan.fitting(due, self._rooms, len(due) if sure else self._params["canary"])
        )
        if wave and not self._task.check_mode:
            wave = self._promised(wave, {node.host for node in due if node.out}, canary=not sure)
        going = frozenset(wave)
        beyond = (node for node in self._due(left) if node.host not in going)
        outside = {node.host: halted or self._beyond(node, sure) for node in beyond}
        told = self._answer([wave] if wave else [], {**outside, **self._left()}, halted)
        return {**told, "events": self._halts(halted)}

    def _halts(self, why: str) -> list[dict[str, Any]]:
        """That no wave began, and why, at the first of the nodes that were to go."""
        known = [host for host in in_order(self._hosts) if self._nodes[host]["node_id"]]
        said = {"reason": why, "broken_off": why == self._broken_off(), "images": sorted(self._images)}
        return [self._event(known[0], ended.HALTED, {**said, "nodes": len(known)})] if why and known else []

    def _waits(self, sure: bool) -> bool:
        """One canary at a time, whoever tries it."""
        return bool(self._tries) and not sure

    def _promised(self, wave: tuple[str, ...], was_out: Collection[str], canary: bool) -> tuple[str, ...]:
        """Those that stay in the wave, once it is written down. Two runs that read the same room at one time both see
        what the other one wrote; the later one gives back what is too much."""
        said = {"canary": canary, "holder": ended.held_by(self._run_as), "size": len(wave)}
        first, *_others = self._tell(
            wave, ended.BEGUN, lambda host: {**said, "out": host in was_out, "image": self._image(host)}
        )
        waves = begun.stand(self._waves(), before=first)
        # Who began before us told where its nodes are before that, maybe for the first time.
        self._others = elsewhere.with_places(self.ledger(), self._others)
        self._count(waves)
        mine = [host for host in wave if self._nodes[host]["node_id"] not in self._taken]
        kept = plan.fitting(plan.in_turn(plan.of_hosts(self._members, mine)), self._rooms, len(wave))
        why, others = "another run took their room", self._rivals(waves) if canary else ()
        if others:
            kept, why = (), f"the run {min(others)} tries a canary of this image"
        stay = frozenset(kept)
        given_back = [host for host in wave if host not in stay]
        if given_back:
            self._tell(given_back, ended.WITHDRAWN, lambda _host: {"reason": why})
        return kept

    def _rivals(self, waves: Collection[begun.Event]) -> list[str]:
        """Other runs that began a canary of the image while this one made up its mind: those that it has not seen, as
        a number that is lower than what was seen may come to light later."""
        others = [one for one in waves if one["run_id"] != self.run_id and one["id"] not in self._seen_waves]
        return [str(one["run_id"]) for one in others if one["data"].get("image") in self._images]

    def _tell(self, hosts: Sequence[str], name: str, data: Callable[[str], Mapping[str, Any]]) -> list[int]:
        pairs = [(str(self._nodes[host]["node_id"]), Event(ended.KIND, name, dict(data(host)))) for host in hosts]
        return begun.append(self.ledger(), self.run_id, pairs, self._secrets)

    def _beyond(self, node: budget.Member, sure: bool) -> str:
        """Why a node that is due is not in this wave."""
        waits = _BESIDE if sure else "no canary has come through yet: run it again for this one"
        if self._waits(sure):
            waits = f"{folded(self._tries)}, which another run tries it on, has not come through yet"
        return plan.full(node, self._rooms) or waits

    def _pausing(self) -> dict[str, Any]:
        return self._marked(ended.PAUSED, self._params["reason"], lambda own, reason: own != reason)

    def _resuming(self) -> dict[str, Any]:
        return self._marked(ended.RESUMED, self._params["reason"] or "", lambda own, _reason: own is not None)

    def _resetting(self) -> dict[str, Any]:
        """Each time anew: what failed since the last one is meant as well."""
        images = sorted({image for image in map(self._image, self._hosts) if image})
        return self._marked(ended.RESET, self._params["reason"], lambda _own, _reason: True, images=images)

    def _marked(self, name: str, reason: str, due: Callable[[str | None, str], bool], **more: Any) -> dict[str, Any]:
        """Whoever the ledger knows of these hosts, and is to be marked by what stands of it."""
        self._nodes = self._told(self._fleet)
        ids = {host: str(one["node_id"]) for host, one in self._nodes.items() if one["node_id"]}
        own = self.ledger().latest(list(ids.values()), ended.KIND, (ended.PAUSED, ended.RESUMED))
        stands = {node: one["data"].get("reason") for node, one in own.items() if one["name"] == ended.PAUSED}
        hosts = [host for host in self._hosts if host in ids and due(stands.get(ids[host]), reason)]
        if not set(ids) & set(self._hosts):
            raise ConfigError("the ledger knows none of these hosts", do="correct gpufleet_ledger_url, or the limit")
        whole = set(self._whole) <= set(self._hosts)
        said = {"by": self._params["by"], "reason": reason, "whole": whole, **more}
        told = f"{len(hosts)} of {len(self._hosts)} nodes {name} by {said['by']}" + (f": {reason}" if reason else "")
        events = [self._event(host, name, said) for host in hosts]
        return {"changed": bool(hosts), "marked": hosts, "lines": [told], "events": events}

    # -- answers -----------------------------------------------------------------------------------------------

    def _event(self, host: str, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
        return {**Event(ended.KIND, name, dict(data), host).__dict__}

    def _answer(self, waves: Any, left: Mapping[str, str], halted: str) -> dict[str, Any]:
        groups = self._vars.get("groups") or {}
        told: dict[str, Any] = {
            "waves": [list(wave) for wave in waves],
            "limits": [limit(wave, groups) for wave in waves],
            "order": [] if halted else [host for wave in waves for host in wave],
            "sizes": [] if halted else [len(wave) for wave in waves],
            "left": dict(left),
            "images": sorted(self._images),
            "halted": halted,
            "broken_off": bool(halted) and halted == self._broken_off(),
            "out": sorted(node.host for node in self._members if node.out),
            "out_elsewhere": self._out_elsewhere,
            "budgets": [room.as_data() for room in self._rooms.values()],
            "through": list(self._before.through),
            "failed_before": list(self._before.failed),
        }
        return {**told, "lines": shown.table(self._params["title"], told, self._rooms.values(), display.columns)}


def _told_pause(event: Mapping[str, Any]) -> str:
    return shown.pause(event, utc(event["at"]))


_STATES: Mapping[str, Callable[[ActionModule], dict[str, Any]]] = {
    "planned": ActionModule._planned,
    "begun": ActionModule._begun,
    "paused": ActionModule._pausing,
    "resumed": ActionModule._resuming,
    "reset": ActionModule._resetting,
}
