# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that no user sees: a command on this machine, stateless nodes, images by name, no power of its own.

It shows that the contract can say what such a provisioner is like, and that the suite asks nothing else of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    DEPLOYING,
    FAILED,
    OTHER,
    READY,
    Changes,
    Driver,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.meanwhile import Judged
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import ABSENT, PRESENT, Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import BY_NAME, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

ASSIGN, CLEAR = "assign", "clear"
#: Tags that are ours; the marks of the option annotations begin with MARK.
SERIAL, NOTE, HOLD, MARK = "gpufleet-serial", "gpufleet-image", "gpufleet-hold", "gpufleet-mark-"

STATES = {
    "unset": READY,
    "set": DEPLOYING,
    "booting": DEPLOYING,
    "running": DEPLOYED,
    "not served": FAILED,
    "somebody's": DEPLOYED,
    "discoverable": OTHER,
}
#: What a node is doing since its image was set, by the stage that the tool saw it in last.
STAGES = {"kernel": "booting", "image": "booting", "running": "running", "error": "not served"}
_SET = dict.fromkeys(("set", "booting", "running", "not served", "somebody's"))

STEPS = {
    READY: dict.fromkeys(("unset", *_SET), DONE),
    DEPLOYED: {
        "unset": ASSIGN,
        "set": ("image_current", BOOT, ASSIGN),
        "booting": ("image_current", WAIT, ASSIGN),
        "running": ("image_current", DONE, ASSIGN),
        "not served": ASSIGN,
        "somebody's": ASSIGN,
    },
    "released": {"unset": DONE, **dict.fromkeys(_SET, CLEAR)},
}


class CommandLineDriver(Driver):
    name = "imagectl"
    states_map = STATES
    steps = STEPS
    leads_to = {ASSIGN: "set", CLEAR: "unset"}
    destructive = frozenset({ASSIGN, CLEAR})
    orders = {ASSIGN: "deployed", CLEAR: "released"}
    image_needs = BY_NAME
    owns_power = False
    serial = True
    inspects = False
    erases = False
    deploy_proof = "network_boot"
    stateless = ("ramdisk", "whole-disk")

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        require(params, "provisioner_url", node=ctx.node)
        self._command = str(params["provisioner_url"])

    @property
    def address(self) -> str:
        return self._command

    def close(self) -> None:
        """It keeps nothing open."""

    # -- the command -------------------------------------------------------------------------------------------

    def _run(self, *argv: str) -> command.Answer:
        answer = command.run(self, [self._command, *argv])
        if "permission denied" in answer.err:
            raise AuthFailed("the command may not be used", address=self.address, seen=answer.err)
        return answer

    def _nodes(self, *names: str) -> dict[str, dict[str, Any]]:
        answer = self._run("node", "list", *names)
        if answer.code != 0:
            raise Unreachable("no list of nodes", address=self.address, seen=f"exit {answer.code}: {answer.err}")
        try:
            found = json.loads(answer.out)
        except ValueError as exc:
            raise BadAnswer("the list of nodes is no JSON", address=self.address, seen=cut(answer.out, 200)) from exc
        if not isinstance(found, dict) or not all(isinstance(one, dict) and "tags" in one for one in found.values()):
            raise BadAnswer("no list of nodes", address=self.address, seen=cut(answer.out, 200))
        return found

    def _write(
        self, wanted: Wanted, verb: str, name: str, *options: str, over: NodeState | None = None
    ) -> NodeState | None:
        """Its exit status proves nothing: what stands there afterwards does.

        :param over: the node as it was judged, of a write that could hit what runs there.
        """
        what = " ".join(["imagectl node", verb, name, *options])
        if not self.ctx.may_write(what, destructive=over is not None, nodes=(wanted.host,)):
            return None
        if over is not None:  # leave for it may have been waited for
            Judged(self, over, wanted).demand()
        answer = self._run("node", verb, name, *options)
        record = self._nodes(name).get(name)
        wrong = "it is not there" if record is None else _missing(record, options)
        if wrong:
            # What was read back says that it was not taken, whatever the command says of it.
            kind = Unreachable if "cannot reach" in answer.err or answer.code < 0 else Refused
            seen = f"{wrong}; exit {answer.code}: {answer.err}"
            raise kind("the write is not there", address=self.address, wanted=what, seen=seen)
        return self._state(name, record or {})

    # -- reading -----------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        record = self._nodes(wanted.key).get(wanted.key)
        if record is not None:
            return self._state(wanted.key, record)
        for name, other in self._nodes().items() if wanted.boot_mac else ():
            if other["hwaddr"] == mac(wanted.boot_mac):
                raise WrongMachine(f"its MAC belongs to {name}", node=wanted.host, address=self.address)
        return None

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        return {one.host: one.key for one in wanted}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        return {name: self._state(name, record) for name, record in self._nodes(*ids).items()}

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = str(node.raw["tags"].get(SERIAL, "")) if node.raw else ""
        return {"of its record": told} if told else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        return Network(frozenset({node.raw["hwaddr"]} - {""})) if node.raw else Network()

    def _state(self, name: str, record: Mapping[str, Any]) -> NodeState:
        tags = record["tags"]
        note = json.loads(tags.get(NOTE) or "{}")
        native = _native(record, note)
        hold = str(tags.get(HOLD) or "")
        foreign = next((f"{key} is {tags[key]}" for key in ("held by", "owner") if tags.get(key)), "")
        label = f"{note.get('name')}-{note.get('version')}"
        return NodeState(
            id=name,
            name=name,
            native=native,
            state=STATES[native],
            last_error=f"it asked for {record['sent']}, which is not there" if native == "not served" else "",
            maintenance=has_form(hold),
            hold=hold,
            foreign=foreign,
            stamp=str(record["seen"]),
            deploy_failed=native == "not served",
            image={"label": label, **note} if note else {},
            inspection="unsupported",
            raw=record,
        )

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        note = json.loads(node.raw["tags"].get(NOTE) or "{}")
        image = wanted.image
        current = image is None or (node.raw["image"] == image.named and image.is_noted(note))
        return {"image_current": current and not wanted.redeploy}

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        if wanted.image is None or wanted.image.named in json.loads(self._run("image", "list").out or "{}"):
            return None
        return Refused(f"no image {wanted.image.named}")

    def stored_image(self, wanted: Wanted) -> Stored:
        answer = self._run("image", "list")
        if answer.code != 0 or not answer.out.startswith("{"):
            raise Unreachable("no list of images", address=self.address, seen=f"exit {answer.code}: {answer.err}")
        there = _named(wanted) in json.loads(answer.out)
        return Stored(_named(wanted), PRESENT if there else ABSENT, lacks="" if there else "no such image")

    # -- writing -----------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        fields = {"hwaddr": mac(wanted.boot_mac) if wanted.boot_mac else "", "serial": wanted.serial}
        raw = node.raw if node is not None else {"hwaddr": "", "tags": {}}
        standing = {"hwaddr": raw["hwaddr"], "serial": str(raw["tags"].get(SERIAL, ""))}
        after = {key: value for key, value in fields.items() if value and standing[key] != value}
        flags = {"hwaddr": ("--hwaddr", "{}"), "serial": ("--tag", SERIAL + "={}")}
        options = [word.format(after[key]) for key in after for word in flags[key]]
        changes = Changes({key: standing[key] for key in after if node}, after)
        if node is not None and not after:
            return node, Changes()
        written = self._write(wanted, "set" if node else "add", wanted.key, *options)
        predicted = node or NodeState(id="", name=wanted.key, native="unset", state=READY)
        return written or predicted, changes

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        if step == CLEAR:
            self._write(wanted, "set", node.id, "--no-image", "--untag", NOTE, over=node)
            return
        require({"image": wanted.image}, "image", node=wanted.host)
        image = wanted.image
        note = json.dumps({**(image.identity() if image else {}), "before": node.raw["seen"]})
        self._write(wanted, "set", node.id, "--image", _named(wanted), "--tag", f"{NOTE}={note}", over=node)

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        tags = node.raw["tags"]
        differing = {key: value for key, value in wanted.annotations.items() if tags.get(MARK + key, "") != value}
        options = [word for key, value in differing.items() for word in _tagged(MARK + key, value)]
        if differing:
            self._write(wanted, "set", node.id, *options)
        return Changes({key: tags.get(MARK + key, "") for key in differing}, differing)

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        self._write(wanted, "set", node.id, "--tag", f"{HOLD}={token}")

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        self._write(wanted, "set", node.id, "--untag", HOLD)


def _named(wanted: Wanted) -> str:
    return wanted.image.named if wanted.image else ""


def _native(record: Mapping[str, Any], note: Mapping[str, Any]) -> str:
    """What the node did before its image was set is no news of it."""
    if record.get("discoverable"):
        return "discoverable"
    if not record["image"]:
        return "unset"
    if not note:
        return "somebody's"
    return "set" if record["seen"] == note.get("before") else STAGES.get(record["stage"], "set")


def _tagged(key: str, value: str) -> list[str]:
    return ["--tag", f"{key}={value}"] if value else ["--untag", key]


def _missing(record: Mapping[str, Any], options: Sequence[str]) -> str:
    """Which of these options does not show in the record, in words."""
    words = iter(options)
    for word in words:
        value = "" if word == "--no-image" else next(words)
        key, _mark, text = value.partition("=")
        seen = {
            "--no-image": record["image"] == "",
            "--tag": record["tags"].get(key) == text,
            "--untag": value not in record["tags"],
        }
        if not seen.get(word, record.get(word[2:]) == value):
            return f"{word} {value} is not there"
    return ""
