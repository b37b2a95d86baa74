# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at known-good nodes over their own connections, and writes their profile here; see the module of that name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.model import Made, Question, changes, make
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import DRIVERS, SEEN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import LOOKS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GATE_PROFILE, GATE_PROFILE_RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import check_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest, now_utc
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _profile_file as files
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import PROFILE_SCHEMA
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._right_machine import OnItsMachine

#: What a look on a node is given.
_THERE = ("state", "nvidia_smi", "timeout", "pci_path")
#: What a module over there tells; whatever else stands in its answer is nobody's.
_TOLD = ("changed", "failed", "msg", "error", "runs", "on_bus", "events")
#: The column of a site's list that says how many GPUs were ordered.
_ORDERED = COLUMNS["gpu_count"][0]
_QUARANTINED = "quarantined"
#: Whose failure speaks against a node. What the GPUs' state is now, this verb sees itself.
_GATES = tuple(gate for gate in DRIVERS.values() if gate != f"{LOOKS.section}_gate")


class ActionModule(OnItsMachine):
    NAME = "gate_profile"
    SPEC = GATE_PROFILE
    RULES = GATE_PROFILE_RULES

    def _goes_elsewhere(self) -> bool:
        return bool(self._params["state"] == SEEN)  # profiles and ledger are here

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    # -- a look at a node ----------------------------------------------------------------------------------------

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        self.on_its_own_node()
        self._right_machine()
        answer = super()._shipped({name: params[name] for name in _THERE})
        told = {name: answer[name] for name in _TOLD if name in answer}
        return {**told, "node": self._host, "hardware": params.get("hardware") or {}}

    # -- the profile ---------------------------------------------------------------------------------------------

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        path = files.file_of(files.folder_of(params), profiles.named(params["sku"]))
        check_place(str(path), "the profile")
        places = files.folders(params)
        kept = profiles.read(path, params["sku"], PROFILE_SCHEMA).data if path.is_file() else {}
        question = self._question(params, kept, places)
        made = make(question, params["looks"])
        profiles.check(made.profile, PROFILE_SCHEMA)
        self._demand_unknown(made.profile, [*places, path.parent], path, params["beside_known"])
        different = changes(kept, made.profile) if kept else []
        if kept and not different:
            return self._told(path, kept, made, question, changed=False)
        if kept and not params["replace"]:
            raise ConfigError(
                "the site has a profile of this SKU already, and it says another thing",
                address=str(path),
                seen=short("; ".join(different), 600),
                do="see all of it with --check --diff and replace: true; to write it, replace: true",
                details={"differences": different},
            )
        before, after = (
            path.read_text("utf-8") if kept else "",
            files.text_of(made.profile, params["looks"], question.date),
        )
        if not self._task.check_mode:
            files.write(path, after, made.profile)
        told = self._told(path, made.profile, made, question, changed=True)
        told["differences"] = different
        told["warnings"] = [*told["warnings"], *filter(None, [files.in_force(path, params["sku"], places)])]
        if self._task.diff:
            told["diff"] = {"before_header": str(path), "after_header": str(path), "before": before, "after": after}
        return told

    def _question(self, params: Mapping[str, Any], kept: Mapping[str, Any], places: list[Path]) -> Question:
        nodes = self._looked_at(params["looks"])
        like = profiles.load(params["like"], places, PROFILE_SCHEMA).data if params.get("like") else {}
        ids = {node: found for node in nodes if (found := self.node_id(node, create=False))}
        return Question(
            sku=params["sku"],
            title=params["title"],
            date=now_utc().partition("T")[0],
            margin=params["margin"],
            ordered=self._ordered(params, nodes),
            leave_out=params["leave_out"],
            kept=kept,
            like=like,
            against=self._against(ids),
            measured={gate: self._newest(ids, gate) for gate in _GATES},
        )

    def _looked_at(self, looks: Mapping[str, Any]) -> list[str]:
        """:raises NotProven: where one of the nodes was not looked at: it was named as one that is good."""
        wrong = []
        for node, look in looks.items():
            told = look if isinstance(look, Mapping) else {}
            if told.get("failed") or told.get("unreachable") or "runs" not in told:
                wrong.append(f"{node}: {short(str(told.get('msg') or 'no look'), 200)}")
            elif told.get("node") != node:
                wrong.append(f"{node}: the look is of {short(str(told.get('node')), 100)}")
        if wrong:
            raise NotProven(
                "no profile is made, since not every node was looked at",
                wanted="what gate_profile with state: seen has told of each",
                seen="; ".join(wrong),
                do="see why, or limit the run to the other nodes",
            )
        return list(looks)

    def _ordered(self, params: Mapping[str, Any], nodes: list[str]) -> dict[str, int]:
        found = {node: params.get("gpu_count") or self.host_var(_ORDERED, node) for node in nodes}
        try:
            return {node: int(count) for node, count in found.items() if count not in (None, "")}
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"{_ORDERED} is no number", seen=short(str(found), 200)) from exc

    def _newest(self, ids: Mapping[str, str], gate: str) -> dict[str, Mapping[str, Any]]:
        events = self.ledger().latest(list(ids.values()), "verdict", [gate])
        return {node: events[own]["data"] for node, own in ids.items() if own in events}

    def _against(self, ids: Mapping[str, str]) -> dict[str, list[str]]:
        events = self.ledger().latest(list(ids.values()), "state")
        held = [node for node, own in ids.items() if own in events and events[own]["name"] == _QUARANTINED]
        return {node: ["it is quarantined"] for node in held}

    def _demand_unknown(self, profile: Mapping[str, Any], places: list[Path], path: Path, beside: bool) -> None:
        """:raises ConfigError: where a profile knows these GPUs, and nobody says that there shall be another."""
        [device] = profile["gpu"]["device_ids"]["value"]
        self._known_by = files.whose(device, places, path)
        if self._known_by and not beside:
            raise ConfigError(
                f"a profile knows the GPUs of the device {device} already",
                seen=", ".join(self._known_by),
                do="use that one as gpufleet_sku; where these nodes are another model, say beside_known: true",
            )

    def _told(
        self, path: Path, profile: Mapping[str, Any], made: Made, question: Question, *, changed: bool
    ) -> dict[str, Any]:
        known = [f"these GPUs are known to {', '.join(self._known_by)} as well"] if self._known_by else []
        lacks = [] if "dcgm" in profile else ["it has no section dcgm: give one of another SKU by like, or write it"]
        notes = [f"{node}: {text}" for node, texts in made.notes.items() for text in texts]
        return {
            "changed": changed,
            "events": [],
            "path": str(path),
            "sku": question.sku,
            "profile": dict(profile),
            "digest": json_digest(profile),
            "left_out": made.left_out,
            "floors": made.floors,
            "differences": [],
            "warnings": [short(line, 400) for line in [*known, *lacks, *notes, *made.warnings]],
        }
