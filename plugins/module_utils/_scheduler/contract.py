# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scheduler's driver must be able to do, in words that fit them all. PRIVATE to the collection.

A *hold* keeps new work away from a node and carries a text that says whose it is (Slurm: DRAIN and its Reason;
Kubernetes: a taint with an annotation). A node is *drained* when it is held, no work is left on it, and the
scheduler itself is not about to do something to it. It is *in service* when it takes work and its agent answers.

The driver reads and writes. It never judges whose a hold is (:mod:`._scheduler.hold` does), never waits, never asks
whether it may write (the verb has asked), and sends a write once: whoever called decides what a failure means.

**What a driver owes**

1. *It fails closed.* A node is ``absent`` only where the scheduler was reached and certainly does not know the name.
   A state, a flag or an answer that it does not know is :class:`BadAnswer`, or keeps the node from being ``drained``
   and from being in service. No answer is :class:`Unreachable`, a refused login :class:`AuthFailed`.
2. *It shows every hold*, each with its own text, author and time: a person's drain, a taint, a reservation that
   keeps others away, a mark of the scheduler. Where two stand in one field (a drain, and a finding beside it), it
   shows two. A hold without a text is shown with an empty one, and is somebody's.
3. *It says ``by_scheduler`` only of what the scheduler itself certainly wrote*: its whole text, by its own user.
   A flag of the node proves nothing about who wrote the text beside it.
4. *A view has a version*: any change of what a verb judges by (holds, their texts and authors, state, what blocks a
   resume) changes it. :meth:`Scheduler.hold` and :meth:`Scheduler.resume` take the view that was judged, and write
   nothing but raise :class:`Changed` where the node is no longer that. A system that compares and swaps does it with
   the write. One that cannot is read again right before it, and says so with ``COMPARES = False``: a window of
   milliseconds stays.
5. *A hold of ours survives* the restart of the node and its reimaging, carries token and kind, and can be read back
   as it was written; the scheduler may append to the text, and what it puts in its place is marked ``overwrites``.
6. *It lifts nothing but ours.* A resume takes away the hold that carries a token of ours; the holds of others that
   stand beside it stay. Where there is but one place for all, the verb has seen to it that it is ours.
7. *Work is told one by one*, with why it does not leave. What would end by itself is waited for; where work has to
   be made to leave, ``EVICTS`` is true, :meth:`Scheduler.evict` asks for it and returns each refusal with its reason.
8. *A batch is one question*, or as few as the scheduler allows; no state of a node is kept between two calls.
9. *That it does not know a name proves little*: :meth:`Scheduler.known` tells all nodes that it has, with every name
   and address that it has for each, so that another spelling of one of them is not taken for a node of nobody's.
10. *It says which one it is*: every view, of an absent node too, carries the ``place``, asked anew with each look. A
   site has other schedulers with nodes of the same names, and the file or variable that leads to one may change.
11. *A hold settles nothing before work that had been given to the node has come*: where that may come after the hold
   was written, ``SETTLES`` says for how long, and until then the node is not ``drained``, and ``waits_for`` says so.
12. *It tells whom it would never use*: a node may be in service and get no work for good, since the scheduler's map of
    the network lacks it. :meth:`Scheduler.unplaced` tells all of those, in as few questions as the scheduler allows.
13. *A job of ours gives way*: where ``RUNS_JOBS`` is true, :meth:`Scheduler.run_job` starts one on one node, only
   where :meth:`Scheduler.unyielding` has shown that any other job displaces it; it never comes back by itself, and a
   drain of ours ends it (:meth:`Scheduler.evict_request`).
14. *What it lends us for a trial is ours alone*: what :mod:`.trials` puts around a node keeps everybody else's jobs
    away, shows as a hold with ``trial`` of our token to whoever looks, survives our run, and is taken away by its token
    alone.
14. What it cannot do it declares by the class attributes below, and raises :class:`Unsupported`.

``test_contract*.py`` in ``tests/contract/scheduler`` hold a driver against all this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Optional, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.each import Still, each, failed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.jobs import Ask, Job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import Keeper
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.trials import Trials

ABSENT = "absent"
#: Every state that a driver may report, in the port's own terms.
STATES = ("idle", "allocated", "mixed", "draining", "drained", "down", "unknown", ABSENT)

#: Those in which it has work, or takes it.
AT_WORK = ("idle", "allocated", "mixed")

#: What a hold of ours is for: a run's own, a person's that was made through us, or a quarantine.
WORK, KEEP, QUARANTINE = _token.USUAL, _token.KEEP, _token.QUARANTINE
KINDS = (WORK, KEEP, QUARANTINE)


@dataclass(frozen=True)
class Hold:
    """One thing that keeps new work away from a node.

    text: what was written with it, untouched. author, since: who set it and when, in the scheduler's own words;
    empty where it does not tell. kind: of a hold that carries a token, one of KINDS. form: the driver's word for
    what it is, for people (``drain``, ``taint x=y``, ``maintenance reservation``). by_scheduler: the scheduler's own
    mark, certainly nobody's. overwrites: such a mark may stand where a token of ours stood. passing: such a mark
    goes by itself as soon as the node's agent has reported, so nobody has to lift it. silence: such a mark says that
    the node's agent did not answer, and nothing else; what a node gets by answering is none. appended: the end of the
    text, where the scheduler itself certainly wrote it behind what somebody else had written; where it then signs for
    the whole, the author is empty, for that of the rest is told no more. trial: it is where a job of ours tries the
    node (:mod:`.trials`), stands beside a hold or alone, and is none that the ledger notes.
    """

    text: str
    author: str = ""
    since: str = ""
    kind: str = ""
    form: str = ""
    by_scheduler: bool = False
    overwrites: bool = False
    passing: bool = False
    silence: bool = False
    appended: str = ""
    trial: bool = False

    @property
    def token(self) -> str:
        """The text without what the scheduler appended to it, and may append to again."""
        return self.text[: len(self.text) - len(self.appended)]

    def __str__(self) -> str:
        words = f"reason {self.text!r}" + (f" set by {self.author}" if self.author else "")
        return f"{self.form}, {words}" if self.form else words


@dataclass(frozen=True)
class Work:
    """A job or a pod. waits_for: why it does not leave yet, where the scheduler tells (a budget, a finalizer). stays:
    why nobody asks it to leave until a person has acted. runs: for how many seconds it has run; None where the
    scheduler does not tell. ours: a job of our own that verifies the node, and gives way to a drain."""

    id: str
    waits_for: str = ""
    stays: str = ""
    runs: float | None = None
    ours: bool = False

    def __str__(self) -> str:
        why = self.stays or self.waits_for
        return f"{self.id} ({why})" if why else self.id


@dataclass(frozen=True)
class Refusal:
    """Work that was asked to leave and may not. for_good: asking again changes nothing until a person acts."""

    work: str
    reason: str
    for_good: bool = False

    def __str__(self) -> str:
        return f"{self.work}: {self.reason}"


@dataclass(frozen=True)
class Block:
    """Why a resume would be refused, or would be wrong, whoever's the hold is; all in the driver's words."""

    reason: str
    seen: str = ""
    do: str = ""


@dataclass(frozen=True)
class Remedies:
    """The next step for a person, in the terms of this scheduler.

    absent: the node is not known to it. silent: the node's agent does not answer. stuck: no work is left, and the
    node is not drained all the same.
    """

    absent: str = "add the node to the scheduler, then run again"
    silent: str = "look at the scheduler's agent on the node"
    stuck: str = "look at the scheduler's agent on the node"


@dataclass(frozen=True)
class NodeView:
    """One node as its scheduler sees it at one moment.

    version: changes with whatever a verb judges by; opaque. native: the scheduler's own words for the state. reason,
    set_by: what it shows to people as the reason, and who wrote it; nothing is judged by them. answers: the node's
    agent is known to be alive, since a boot that the scheduler knows. bare: why that is not enough of a node with GPUs:
    its scheduler tells of them as a rule, and of none here. finding: what the scheduler found wrong with the node.
    waits_for: what is still under way although no work is left. work: jobs or pods on it. unread: why nothing that is
    told of this node can be believed, where others of its batch can; the state is ``unknown`` then. machine: the system
    UUID of the machine that runs its agent, where the scheduler tells. incarnation: changes where the scheduler's
    record of the node was taken away and made anew, and every hold with it; empty where that cannot be. place: which
    scheduler says all this.
    """

    name: str
    state: str = ABSENT
    version: str = ""
    native: str = ""
    reason: str = ""
    set_by: str = ""
    booted: str = ""
    answers: bool = False
    bare: str = ""
    holds: tuple[Hold, ...] = ()
    blocks_resume: tuple[Block, ...] = ()
    finding: str = ""
    waits_for: str = ""
    work: tuple[Work, ...] = ()
    unread: str = ""
    machine: str = ""
    incarnation: str = ""
    place: Place = Place()

    @property
    def absent(self) -> bool:
        return self.state == ABSENT

    @property
    def held(self) -> bool:
        """It takes no new work until somebody lifts something."""
        return any(not hold.passing for hold in self.holds)

    @property
    def silent(self) -> bool:
        """It is held for no more than that its agent did not answer."""
        return self.held and all(hold.silence for hold in self.holds if not hold.passing)

    @property
    def jobs(self) -> list[str]:
        return [work.id for work in self.work]

    @property
    def in_service(self) -> bool:
        return self.state in AT_WORK and not self.holds and self.answers


class Unplaced(NamedTuple):
    """nodes: every one that would get no work though it were in service, since the map of the network that its
    scheduler goes by lacks it; and why. unread: what of that map could not be read, and leaves nobody out."""

    nodes: Mapping[str, str]
    unread: str = ""


class Scheduler(ABC):
    """A driver. One object serves one task: it may keep a connection, and never a state of a node."""

    NAME: ClassVar[str]
    #: False for the driver of nodes that belong to no scheduler at all: there is nothing to hold or to resume either.
    KEEPS_NODES: ClassVar[bool] = True
    #: The system itself refuses a write to a node that has changed; else the driver reads again right before it.
    COMPARES: ClassVar[bool] = False
    #: Work has to be made to leave a held node; else it ends by itself.
    EVICTS: ClassVar[bool] = False
    #: Jobs of our own can be run on idle nodes, which give way to any other.
    RUNS_JOBS: ClassVar[bool] = False
    #: What is on a node can be asked for of one node alone, so a batch is a question more for each.
    WORK_BY_NODE: ClassVar[bool] = False
    #: Seconds for which a hold has to stand, by the scheduler's own clock, before a node without work is ``drained``.
    SETTLES: ClassVar[float] = 0
    REMEDIES: ClassVar[Remedies] = Remedies()
    #: What makes it tell which one it is, where it does not: a place without a cluster is known by its address alone.
    NAMELESS: ClassVar[str] = ""

    def __init__(self, params: Mapping[str, Any]) -> None:
        #: The connection as its options say; a driver reads those that ``names.py`` lists for it.
        self.options = {name: params.get(name) or "" for name in names.OPTIONS}
        #: Where the scheduler is asked, for errors; of one that has such a place, the driver sets it.
        self.address = ""

    @abstractmethod
    def check(self, name: str) -> None:
        """:raises ConfigError: for a name that could mean anything but one node. Asks nobody."""

    @abstractmethod
    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        """All of these nodes, with the work on them, in as few questions as the scheduler allows.

        A name that the scheduler certainly does not know is given the state ``absent``; where it cannot be told
        from one that is merely hidden from us, this raises.

        :raises ConfigError: for a name that could mean anything but one node.
        """

    @abstractmethod
    def known(self) -> dict[str, tuple[str, ...]]:
        """Every node that the scheduler has, hidden ones too: by its name, whatever else it is called or reached by."""

    def unplaced(self) -> Unplaced:
        """Of a scheduler that goes by no map of the network, nobody."""
        return Unplaced({})

    def topology(self, form: str, path: str) -> Keeper:
        """That map, where it is kept.

        :param form: as which of several it is written. path: where, if not where the scheduler has it.
        :raises Unsupported: where nothing of this scheduler is written here.
        """
        raise Unsupported(f"no topology of the scheduler {self.NAME} is written here", address=self.address)

    def clock(self) -> str:
        """What time it is there now, in the words, and the zone, of ``NodeView.booted``; empty where none is told."""
        return ""

    def trials(self) -> Optional[Trials]:
        """How a job of ours tries a node that no other job can reach; None where this driver has no way to that."""
        return None

    def prerequisites(self) -> Sequence[FleetError]:
        """Why a hold or a resume would be refused, whichever node it is of; nothing is written to find out."""
        return ()

    @abstractmethod
    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        """The write that :meth:`hold` sends, in words."""

    @abstractmethod
    def hold(self, view: NodeView, token: str, kind: str) -> None:
        """Keep new work away, marked with our token and its kind. Work that runs goes on.

        A hold of ours that stands already is replaced; what others hold stays.

        :raises Changed: where the node is no longer what was judged; nothing was written.
        :raises Unsupported: where ``KEEPS_NODES`` is false.
        """

    @abstractmethod
    def resume_request(self, view: NodeView) -> str:
        """The write that :meth:`resume` sends, in words."""

    @abstractmethod
    def resume(self, view: NodeView) -> None:
        """Lift our hold. Called only where no hold of the view is somebody else's, and nothing blocks it.

        :raises Changed: where the node is no longer what was judged; nothing was written.
        :raises Unsupported: where ``KEEPS_NODES`` is false.
        """

    def hold_each(
        self, due: Sequence[tuple[NodeView, str, str]], still: Still = lambda name: None
    ) -> dict[str, FleetError]:
        """Several holds, each with what :meth:`hold` takes, in as few writes as the scheduler allows; by node, why one
        was not sent or not taken. One of them that fails says nothing of the others."""
        return failed(each({view.name: partial(self.hold, view, token, kind) for view, token, kind in due}, still))

    def resume_each(self, views: Sequence[NodeView], still: Still = lambda name: None) -> dict[str, FleetError]:
        """The same of :meth:`resume`."""
        return failed(each({view.name: partial(self.resume, view) for view in views}, still))

    def evict_request(self, view: NodeView) -> str:
        """The write that makes work leave a held node, in words; empty where none is due, as where work ends by
        itself, or all of it has been asked already."""
        return ""

    def evict(self, view: NodeView) -> Sequence[Refusal]:
        """Send it. Asked at each poll of a drain, for every held node of ours that still has work.

        Work is named so that nothing else of the same name can be hit (a pod by its uid). Never by force.

        :returns: what refused to go; accepted is not gone, the next look tells.
        :raises Unsupported: where ``EVICTS`` is false.
        """
        raise Unsupported("this scheduler's work ends by itself", node=view.name)

    def evict_each(
        self, views: Sequence[NodeView], still: Still = lambda name: None
    ) -> dict[str, Union[Sequence[Refusal], FleetError]]:
        """The same of several, as many at once as the scheduler takes well; by node, or what was in its way."""
        return each({view.name: partial(self.evict, view) for view in views}, still)

    # -- jobs of our own -------------------------------------------------------------------------------------------

    def unyielding(self, queue: str, nodes: Sequence[str]) -> Mapping[str, str]:
        """Those of these nodes on which a job in this queue would not give way to every other one, and why.

        :raises ConfigError: where it would on none, or nobody can tell.
        :raises Unsupported: where ``RUNS_JOBS`` is false.
        """
        raise Unsupported(
            f"no job of ours is run by the scheduler {self.NAME} here",
            address=self.address,
            do="verify idle nodes where the scheduler is slurm, by its commands; the gates of a node of this one are"
            " run by revalidate, once it is drained",
        )

    def spare(self, view: NodeView) -> str:
        """Why such a job is not to be sent to this node now; empty of one that is idle and nobody's."""
        return "" if view.in_service and view.state == "idle" and not view.work else view.native or view.state

    def run_job(self, ask: Ask) -> str:
        """Start it, once; its id."""
        raise Unsupported(f"no job of ours is run by the scheduler {self.NAME} here", address=self.address)

    def own_jobs(self) -> Sequence[Job]:
        """All jobs of this kind that we may have started, by whichever run, those that ended lately among them."""
        return ()

    def end_jobs(self, jobs: Sequence[str]) -> None:
        """End these, by their ids; one that is over already is no error."""
        raise Unsupported(f"no job of ours is run by the scheduler {self.NAME} here", address=self.address)
