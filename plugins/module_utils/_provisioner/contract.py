# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract that every provisioner's driver fulfils. PRIVATE to the collection.

A provisioner is a state machine of its own. A driver brings two literal tables: one from its native states to
ours, and one that names the next step from a native state towards a goal. Everything else (who may write, what is
foreign, when to stop) is the same for all and lives in the verbs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import (
    clean_run,
    has_form,
    make_token,
    run_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

# Our names of the states; OTHER is what only the provisioner's own people understand.
ENROLLED, INSPECTING, READY, DEPLOYING = "enrolled", "inspecting", "ready", "deploying"
DEPLOYED, RELEASING, CLEANING, FAILED = "deployed", "releasing", "cleaning", "failed"
OTHER, ABSENT = "other", "absent"

#: Goals of the step tables.
GOALS = names.GOALS

# Steps that are no request: the goal is reached; the provisioner is at work; only a person can go on from here.
DONE, WAIT, STOP = "done", "wait", "stop"

#: A cell of a step table: a step, or (fact, cell if it holds, cell if not).
Cell = Union[str, tuple]
StepTable = Mapping[str, Mapping[str, Cell]]


@dataclass(frozen=True)
class Image:
    """The image a node is to run, out of the host variable ``gpufleet_image``."""

    name: str
    version: str
    url: str
    sha256: str = ""
    kernel_url: str = ""
    format: str = "ramdisk"
    #: Tells one deployment of this image from the next; empty where any will do.
    deploy_id: str = ""

    @classmethod
    def of(cls, mapping: Mapping[str, Any] | None, *, node: str = "") -> Image | None:
        """:raises ConfigError: where a key that identifies the image is missing."""
        if not mapping:
            return None
        missing = [key for key in ("name", "version", "url") if not mapping.get(key)]
        if missing:
            raise ConfigError(
                f"the image lacks {', '.join(missing)}",
                node=node,
                do="complete gpufleet_image: name, version and url say what is deployed",
            )
        picked = {key: str(mapping[key]) for key in cls.__dataclass_fields__ if mapping.get(key)}
        if picked.get("format", "ramdisk") not in ("ramdisk", "whole-disk"):
            raise ConfigError(f"unknown image format {picked['format']}", node=node, wanted="ramdisk or whole-disk")
        return cls(**picked)

    @property
    def label(self) -> str:
        """What a person and a provisioner's image list call it."""
        return "".join(char if char.isalnum() or char in "._-" else "-" for char in f"{self.name}-{self.version}")

    def identity(self) -> dict[str, str]:
        """What is noted at the provisioner, to know the image again."""
        noted = {"name": self.name, "version": self.version, "url": self.url, "sha256": self.sha256}
        return {**noted, "deploy_id": self.deploy_id} if self.deploy_id else noted

    def is_noted(self, noted: Mapping[str, Any]) -> bool:
        """Is this the image, and where one is asked for this very deployment, that the provisioner's note tells of?"""
        return all(str(noted.get(key) or "") == value for key, value in self.identity().items())


@dataclass(frozen=True)
class Wanted:
    """What is known and wanted of one node."""

    host: str
    provisioner_id: str = ""
    name: str = ""
    boot_mac: str = ""
    serial: str = ""
    bmc: Mapping[str, Any] = field(default_factory=dict)
    image: Image | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    erase: bool = False
    redeploy: bool = False
    update_password: bool = False
    #: The run that asks, and all runs of ours that ever wrote to this node; None where no ledger was there to tell.
    run: str = "module"
    runs: frozenset[str] | None = None

    @property
    def key(self) -> str:
        """By what the provisioner is asked for the node."""
        return self.provisioner_id or self.name or self.host

    def token(self, why: str) -> str:
        """What a hold of this run reads."""
        return make_token(self.run, why)

    def not_ours(self, node: NodeState) -> str:
        """Why the node is not ours to touch, in words; empty where it is.

        The form of a token proves nothing, since another site's controller writes the same: the run in it must be
        one that our own ledger knows for this node.
        """
        if node.foreign:
            return node.foreign
        if self.runs is None or not has_form(node.hold) or run_of(node.hold) in self.runs | {clean_run(self.run)}:
            return ""
        return f"held by another controller of this kind: {node.hold}"


@dataclass(frozen=True)
class NodeState:
    """One node as its provisioner sees it.

    native: the provisioner's own word. state: ours. hold: the text of the hold that stands, ours or not.
    foreign: why the node is not ours to touch, in words; empty where it is. stamp: changes with every change of
    the native state where the provisioner tells. raw: the provisioner's record, for its own driver alone.
    """

    id: str
    name: str
    native: str
    state: str
    power: str = ""
    last_error: str = ""
    maintenance: bool = False
    hold: str = ""
    foreign: str = ""
    owner: str = ""
    stamp: str = ""
    image: Mapping[str, Any] = field(default_factory=dict)
    inspection: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def moved(self, native: str, state: str) -> NodeState:
        """The same node in another state, for predictions."""
        return replace(self, native=native, state=state)


@dataclass(frozen=True)
class Changes:
    """What enrolling changed of the provisioner's record: field by field, secrets masked."""

    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    #: Wanted, but not changeable in the node's present state.
    deferred: tuple[str, ...] = ()


class Driver(ABC):
    """One provisioner's API. Every write asks ``ctx.may_write`` first, and sends nothing on False."""

    #: The value of gpufleet_provisioner.
    name: str
    #: Native state to ours.
    states_map: Mapping[str, str]
    #: goal -> native state -> cell.
    steps: StepTable
    #: step -> native state that it leads to at once, for predictions.
    leads_to: Mapping[str, str]
    #: Steps that can hit running work.
    destructive: frozenset[str]

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    @abstractmethod
    def find(self, wanted: Wanted) -> NodeState | None:
        """The node's whole record; None where the provisioner does not know it."""

    @abstractmethod
    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """host -> the id that :meth:`states` answers by; hosts that are not known are left out."""

    @abstractmethod
    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        """All these nodes in as few list requests as the API allows; what is not known is left out."""

    @abstractmethod
    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        """Make the record what is wanted; start nothing."""

    @abstractmethod
    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        """What the step table's cells ask."""

    @abstractmethod
    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        """Send the request or requests that begin this step."""

    @abstractmethod
    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        """Write those annotations that differ."""

    @abstractmethod
    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        """Take the node out of the provisioner's own care, under our token."""

    @abstractmethod
    def lift(self, node: NodeState, wanted: Wanted) -> None:
        """Give it back."""

    def left_over(self, node: NodeState) -> bool:
        """Is this hold one that a step of ours took for a moment, and a killed run left? The step takes it up again."""
        return False

    def reread(self, node: NodeState, wanted: Wanted) -> NodeState:
        """The record after a write."""
        found = self.find(replace(wanted, provisioner_id=node.id))
        return found if found is not None else node.moved(ABSENT, ABSENT)

    def next_step(self, node: NodeState, goal: str, wanted: Wanted) -> str:
        """The next step of this node towards a goal, by the table."""
        return resolve_cell(self.steps[goal].get(node.native, STOP), lambda: self.facts(node, wanted))

    def predicted(self, step: str, node: NodeState) -> NodeState:
        """Where a step leads, for check mode."""
        native = self.leads_to.get(step)
        return node if native is None else node.moved(native, self.states_map.get(native, OTHER))

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""


def resolve_cell(cell: Cell, facts: Any) -> str:
    """Follow a cell's forks; ``facts`` is called once, and only where a fork asks."""
    known: Mapping[str, bool] | None = None
    while not isinstance(cell, str):
        if known is None:
            known = facts()
        fact, yes, no = cell
        cell = yes if known[fact] else no
    return cell


def own_extras(params: Mapping[str, Any], provisioner: str) -> dict[str, Any]:
    """What the option ``driver`` says to this driver: its own part, or all of it where it has no parts."""
    given = params.get("driver") or {}
    parts = names.DRIVERS.keys() & set(given)
    return dict((given.get(provisioner) or {}) if parts else given)


def mac(text: str) -> str:
    """A MAC in the one form that is compared: lower case, colons."""
    return net.spelled(text)
