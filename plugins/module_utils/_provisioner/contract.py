# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract that every provisioner's driver fulfils. PRIVATE to the collection.

A provisioner is a state machine of its own. A driver brings two literal tables: one from its native states to
ours, and one that names the next step from a native state towards a goal. Everything else (who may write, which
machine it is, what is foreign, when to stop, whose turn it is) is the same for all and lives in the verbs.

**What a driver owes.** A package ``_provisioner/NAME/`` with a subclass of :class:`Driver`, one line in the registry,
one in ``names.py``, and a green contract suite (``tests/contract/provisioner``), for which it brings one adapter.

* Tables: ``states_map``, ``steps`` (a row for each of :data:`GOALS`; a native state without a cell is
  :data:`~.cells.STOP`), ``leads_to`` and ``destructive``; ``works``, ``busy`` and ``settled`` where it does such work.
* Power, where it switches any: ``switches``, :meth:`power_of` and :meth:`switch`.
* What it cannot do, as data: ``inspects``, ``holds``, ``annotates``, ``erases``, ``takes_images``. The verbs then
  answer with ``Unsupported``, and the driver is never asked. It defines no method for what it cannot.
* What is different about it, as data: ``image_needs``, ``owns_power``, ``serial``, ``deploy_proof``.
* Commands go through ``command.run``, which serves ``serial`` drivers alone: one that outlives its worker, or its
  time, keeps the turn. Where ``login_host`` is set, they run there.
* Reading: :meth:`find`, :meth:`resolve`, :meth:`states`, :meth:`serials`, :meth:`network`, and where they can tell it
  :meth:`bmc` and :meth:`prerequisites`. They never write.
* Writing: :meth:`enrol`, :meth:`start` (or :meth:`start_many`), :meth:`annotate`, :meth:`hold`, :meth:`lift`. Each
  asks ``ctx.may_write`` before every single request, and sends nothing on False. Each is called with the right
  machine proven; where the driver is ``serial`` in its turn, under the node's lease, and with the node as it was
  read and judged in that turn.
* An effect is read, never believed: what was written is read back wherever an answer can lie.
* Errors are those of ``_errors.py``: ``Unreachable`` and ``BadAnswer`` where nothing usable was heard (asked again by a
  wait), ``AuthFailed`` (told once, for all), ``Refused`` and ``ConfigError``. Never a secret in any of them.
* What cannot be deployed as it is declared is known before anything is written or held: :meth:`undeployable` says so.
* What it deploys is what was declared: where a setting of its own (the option ``driver``) can put something else in
  the image's place, or the image as it is declared cannot be compared, :meth:`other_bytes` says so.
* Run again: a deployment is known by what was noted for it (:meth:`Image.identity`), noted before or with the write
  that begins it, so that a run that was killed anywhere neither repeats nor forgets it.
"""

from __future__ import annotations

import functools
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Optional, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    Fenced,
    FleetError,
    MissingLibrary,
    NotOurs,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import boots_are_asked_for
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.leaving import OfLeaving
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.login_host import LoginHost
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.serving import OfServices
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import OfImages
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.switching import OfPower
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import BY_URL, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.working import OfWork
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

# Our names of the states; OTHER is what only the provisioner's own people understand.
ENROLLED, INSPECTING, READY, DEPLOYING = "enrolled", "inspecting", "ready", "deploying"
DEPLOYED, RELEASING, CLEANING, FAILED = "deployed", "releasing", "cleaning", "failed"
OTHER, ABSENT = "other", "absent"
OF_RECORD = "of its record"  # a serial from there is our own word

GOALS = names.GOALS  # of the step tables

#: A host, and None where its order was taken, else why it was not.
Taken = tuple[str, Optional[FleetError]]

#: These concern all nodes of a batch: no verdict of one node can tell them.
OF_ALL = (AuthFailed, Fenced, MissingLibrary)


@dataclass(frozen=True)
class NodeState:
    """One node as its provisioner sees it.

    native: the provisioner's own word. state: ours. hold: the text of the hold that stands, ours or not.
    foreign: why the node is not ours to touch, in words; empty where it is. stamp: changes with every change of
    the native state where the provisioner tells. deploy_id: which deployment of ours it is deployed with, as the
    provisioner keeps it with that deployment and no longer; empty where it does not tell. deploy_failed: did a
    deployment fail, whoever ordered it, of which parts may be there? excuse: what happened to the provisioner, where
    the step failed by that and it says nothing of the node. raw: the provisioner's record, for its own driver alone.
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
    deploy_id: str = ""
    deploy_failed: bool = False
    excuse: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def moved(self, native: str, state: str) -> NodeState:
        """The same node in another state, for predictions."""
        return replace(self, native=native, state=state)


#: By host its record, None where there is none, or why that host alone cannot be looked for.
Found = dict[str, Union[NodeState, FleetError, None]]


@dataclass(frozen=True)
class Network:
    """What the provisioner knows of a node's network cards.

    macs: in the form of :func:`mac`. addresses: IP addresses, where it gives them. complete: are these all cards of
    the machine, so that one that is not among them is not in it?
    """

    macs: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    complete: bool = False


@dataclass(frozen=True)
class Changes:
    """What enrolling changed of the provisioner's record: field by field, secrets masked."""

    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    #: Wanted, but not changeable in the node's present state.
    deferred: tuple[str, ...] = ()


#: What a driver declares that it can -> the methods that it then owes.
_OWED_WHERE: Mapping[str, tuple[str, ...]] = {"holds": ("hold", "lift"), "annotates": ("annotate",)}


def _refusal(limit: str, method: str) -> Callable[..., NoReturn]:
    def refuse(self: Driver, *_args: Any, **_options: Any) -> NoReturn:
        raise Unsupported(
            f"{self.name} cannot {method}",
            address=self.address,
            seen=f"its driver declares {limit} = False",
            do="nothing was sent; leave it out",
        )

    return refuse


class Driver(OfImages, OfLeaving, OfPower, OfServices, OfWork, ABC):
    """One provisioner's API. Every write asks ``ctx.may_write`` first, and sends nothing on False."""

    #: The value of gpufleet_provisioner.
    name: str
    #: Steps that can hit running work.
    destructive: frozenset[str]
    #: Step to the goal that it orders, "deployed" or "released"; whose a node is rests on these alone.
    orders: Mapping[str, str]

    #: Keys of gpufleet_image that it cannot do without: BY_URL, BY_NAME, or others.
    image_needs: tuple[str, ...] = BY_URL
    #: False: it switches no power and boots nothing. Power then goes to the BMC past it, without its maintenance, and
    #: its step tables say BOOT where a machine must boot, on the way to deployed alone.
    owns_power: bool = True
    #: True: of two writes that it is sent at once it may lose one. The verbs send them one at a time.
    serial: bool = False
    #: Does it look at the hardware? Without, NodeState.inspection is "unsupported", which is no pass.
    inspects: bool = True
    #: Can it keep a hold of ours (the states maintenance and serviceable)?
    holds: bool = True
    #: Can it keep marks of ours (the option annotations)?
    annotates: bool = True
    #: Can it erase the disks with a release (the option erase)?
    erases: bool = True
    #: By what a deployment of its is known on the node, one of ``_deployment.PROOFS``. "nonce": the order takes
    #: ``_deployment.marked(Image.deploy_id)`` to where ``image_verify`` reads it, on this node and no other.
    #: "network_boot": by ``stateless`` alone. With "none" no deployed node is admitted.
    deploy_proof: str = deployment.NONE
    #: Formats of images (:attr:`Image.format`) that a node boots from the network each time, and keeps nothing of: a
    #: boot since the order proves a deployment there as well.
    stateless: tuple[str, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """What a driver declares that it cannot is refused, without a line of its own."""
        super().__init_subclass__(**options)
        boots_are_asked_for(cls)
        for limit, methods in _OWED_WHERE.items():
            for method in methods if not getattr(cls, limit) else ():
                if getattr(getattr(cls, method), "__isabstractmethod__", False):
                    setattr(cls, method, _refusal(limit, method))

    @classmethod
    def reached_by(cls, params: Mapping[str, Any]) -> type[Driver]:
        """The driver for this connection. Where one system is asked in several ways that differ in what is declared
        here, a subclass for each."""
        return cls

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        #: Open files that every command of ours must have as well, so that they are not freed before it has ended.
        self.kept_open: tuple[int, ...] = ()
        #: Commands of this turn that did not end in their time: nothing more is sent in it.
        self.unended: tuple[subprocess.Popen[str], ...] = ()
        #: Where its commands run, where that is not this machine.
        self.login_host: LoginHost | None = None
        #: Did a command of this turn there end, or not, without our hearing of it? Then it was the last one.
        self.unheard = False

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it is asked, without credentials: for messages, and the same for all who write there."""

    # -- reading -----------------------------------------------------------------------------------------------

    #: Why one that it does not seem to know may be there all the same; empty where its login is shown all.
    hidden: str = ""
    #: Between which seconds its clock is ahead of this machine's, where its answers have told that.
    ahead: tuple[float, float] | None = None

    @abstractmethod
    def find(self, wanted: Wanted) -> NodeState | None:
        """The node's whole record; None where the provisioner does not know it.

        :raises WrongMachine: where it knows the node's MAC under another name.
        """

    @abstractmethod
    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """host -> the id that :meth:`states` answers by; hosts that are not known are left out."""

    @abstractmethod
    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        """All these nodes in as few list requests as the API allows; what is not known is left out."""

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        """:meth:`find` of a batch. Worth its own code where lists tell what it asks of each node."""
        ids = self.resolve(wanted)
        listed = self.states(sorted(set(ids.values())))
        return many.each(wanted, lambda one: listed.get(ids.get(one.host, "")) or self.find(one))

    @abstractmethod
    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        """Serial numbers that it knows of this machine, by where each is from. Without ``ask`` those of the record at
        hand; with it, before a write, all of them, with what requests that takes. Blanks and placeholders left out."""

    @abstractmethod
    def network(self, node: NodeState, *, ask: bool) -> Network:
        """The machine's cards and addresses as far as it knows them; ``ask`` as in :meth:`serials`."""

    def bmc(self, node: NodeState) -> tuple[str, str]:
        """By which address it reaches the machine's BMC, and which system it has there, as in ``gpufleet_bmc_address``
        and ``gpufleet_bmc_system_id``; what it does not tell is empty. Asked before a write, with what requests that
        takes, where nothing else says which machine it is."""
        return "", ""

    def withholds(self, node: NodeState) -> bool:
        """Is this login not shown all by which the record may say which machine it is? Asked as :meth:`bmc` is."""
        return False

    @abstractmethod
    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        """What the step table's cells ask."""

    def reread(self, node: NodeState, wanted: Wanted) -> NodeState:
        """The record after a write."""
        found = self.find(replace(wanted, provisioner_id=node.id))
        return found if found is not None else node.moved(ABSENT, ABSENT)

    def other_bytes(self, wanted: Wanted) -> str:
        """What of these settings may put other bytes on the node than those of the declared image, in words; empty
        where nothing does. Asked of nobody, and before the first write: no verdict on the image covers it."""
        return ""

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        """Why this machine cannot be deployed as it is declared; None where nothing stands against it.

        It reads, and writes nothing. Asked before a node is held, before its record is written on the way to a
        deployment, and before each step of that way: what only the last step would refuse, such as an image that lies
        nowhere at the provisioner or is not the declared file, or settings that contradict each other, is known here.
        ``node`` is its record, None where there is none yet; ``wanted.image`` is None where none is declared. That
        image lacks nothing of ``image_needs``: the verbs have seen to that.

        What it returns says nothing of the machine, which stays as it is: :class:`ConfigError` where the inventory is
        to be corrected, :class:`Refused` where something is missing at the provisioner. What keeps it from asking is
        raised, as by any reading.
        """
        return None

    def prerequisites(self, nodes: Sequence[tuple[Wanted, NodeState | None]]) -> list[tuple[str, FleetError]]:
        """Host and what its deployment lacks, of a whole batch: :meth:`undeployable` of each, and what else reading can
        tell long before. Worth its own code where one request tells it of many."""
        asked = ((wanted.host, self.undeployable(wanted, node)) for wanted, node in nodes)
        return [(host, why) for host, why in asked if why is not None]

    # -- writing -----------------------------------------------------------------------------------------------

    @abstractmethod
    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        """Make the record what is wanted; start nothing."""

    @abstractmethod
    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        """Send the request or requests that begin this step. Never called with one of NO_REQUEST.

        Of a step in ``orders`` each write is told as the order; what only goes before it stands under
        ``self.ctx.ordering("")``.
        """

    def start_many(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> Iterator[Taken]:
        """Begin one step of many nodes, and say of each host, as soon as that is known, what became of it: None where
        its order was taken, else why it was not, or why nobody knows.

        Worth its own code where one request serves many nodes: there :meth:`permitted` tells for which of them it may
        be sent, and :meth:`one_request` what it came to. What befalls one request is told of its own nodes, and the
        next one is sent all the same. Only what concerns all nodes of a batch (:data:`OF_ALL`) is raised, and takes
        back nothing that was told before it. Of whom nothing is told nothing was taken.
        """
        for node, wanted in nodes:
            yield from self.one_request([wanted.host], functools.partial(self.start, step, node, wanted))

    @staticmethod
    def one_request(hosts: Sequence[str], send: Callable[[], Mapping[str, FleetError] | None]) -> Iterator[Taken]:
        """What one request came to for each of its hosts. ``send`` may return for which of them it was not taken, and
        why, though the request itself was."""
        try:
            but: Mapping[str, FleetError] = send() or {}
        except OF_ALL:
            raise
        except FleetError as exc:
            but = dict.fromkeys(hosts, exc)
        yield from ((host, but.get(host)) for host in hosts)

    def order(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> Iterator[Taken]:
        """:meth:`start_many`, told as the order that it is."""
        with self.ctx.ordering(self.orders.get(step, "")):
            yield from self.start_many(step, nodes)

    def permitted(
        self,
        what: Callable[[Sequence[tuple[NodeState, Wanted]]], str],
        step: str,
        nodes: Sequence[tuple[NodeState, Wanted]],
    ) -> tuple[list[tuple[NodeState, Wanted]], dict[str, FleetError]]:
        """Those of the nodes for which one write may be sent now, and why not for the others.

        All are asked for at once; where that is refused, which of them it is about is told one by one.

        :param what: words the write for those nodes that it is sent for; others are not to be read in its intent.
        """
        hard = step in self.destructive
        try:
            may = self.ctx.may_write(what(nodes), destructive=hard, nodes=tuple(wanted.host for _node, wanted in nodes))
            return (list(nodes) if may else []), {}
        except NotOurs:
            pass
        granted: list[tuple[NodeState, Wanted]] = []
        refused: dict[str, FleetError] = {}
        for node, wanted in nodes:
            try:
                one = [(node, wanted)]
                granted += one if self.ctx.may_write(what(one), destructive=hard, nodes=(wanted.host,)) else []
            except NotOurs as exc:
                refused[wanted.host] = exc
        return granted, refused

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

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""


def mac(text: str) -> str:
    """A MAC in the one form that is compared: lower case, colons."""
    return net.spelled(text)
