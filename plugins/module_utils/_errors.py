# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception tree of the collection.

.. code-block:: text

    FleetError
     +-- ConfigError          an option, a file or a library is not as it must be
     |    +-- MissingLibrary
     |    +-- OlderLedger      its tables are an older release's, and nothing may be altered now
     +-- Unreachable          no answer at all, or the connection broke
     +-- AuthFailed           the peer refused our credentials; never tried twice
     +-- Refused              the peer understood, and said no
     +-- Changed              it is no longer what was judged; nothing was written: read and judge again
     +-- BadAnswer            an answer that cannot be what it claims to be
     +-- Unsupported          this peer cannot do that at all
     +-- NotProven            we acted, and the effect was not read back
     |    +-- DeadlineExceeded
     +-- NotOurs              somebody else's hold, lock, node or job stands in the way
     |    +-- LeaseHeld       another run works on this node
     |    +-- LeaseLost       another run took this node of a batch meanwhile; the others go on
     |    +-- EvidenceMissing a destructive verb without fresh proof that it may
     |         +-- EvidenceOld it is there, and nothing but its age stands against it
     +-- Fenced               our parent died or our lease was taken: stop, write nothing
     +-- TrustError           a signature, digest, identity or expiry is not what it must be

Raise deep, catch once, in ``main()`` or in the action's base class. PRIVATE to the collection.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import tail


class FleetError(Exception):
    """What went wrong, where, what was wanted, what was seen, and what to do next.

    :param what: one sentence in plain words, without the node's name.
    :param node: the name a person knows the node by.
    :param address: the URL or address of the peer that was asked; never with credentials.
    :param wanted: the state or answer that was asked for.
    :param seen: the state or answer that came instead.
    :param do: the next step for the person who reads this.
    :param details: JSON-serialisable extras for machines; never a secret.
    """

    kind = "error"

    def __init__(
        self,
        what: str,
        *,
        node: str = "",
        address: str = "",
        wanted: str = "",
        seen: str = "",
        do: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.node = node
        self.address = address
        self.wanted = wanted
        self.seen = seen
        self.do = do
        self.details = dict(details or {})

    def located(self, *, node: str = "", address: str = "") -> FleetError:
        """Fill in where it happened, if the place that raised it did not know."""
        self.node = self.node or node
        self.address = self.address or address
        return self

    def __str__(self) -> str:
        place = self.node
        if self.address:
            place = f"{place} ({self.address})" if place else self.address
        text = f"{place}: {self.what}" if place else self.what
        for label, value in (("Wanted", self.wanted), ("Seen", self.seen), ("Do", self.do)):
            if value:
                text = f"{text.rstrip('.')}. {label}: {value}"
        return text

    def as_result(self) -> dict[str, Any]:
        """The arguments of ``fail_json`` and of an action's failed result."""
        error = {
            "kind": self.kind,
            "what": self.what,
            "node": self.node,
            "address": self.address,
            "wanted": self.wanted,
            "seen": self.seen,
            "do": self.do,
        }
        error.update({key: value for key, value in self.details.items() if key not in error})
        return {"msg": str(self), "error": error}


class ConfigError(FleetError):
    kind = "config"


#: By the name that pip knows, the module of each library of meta/ee-requirements.txt that some task needs.
LIBRARIES: Mapping[str, str] = {
    "cryptography": "cryptography",
    "jmespath": "jmespath",
    "jsonschema": "jsonschema",
    "netaddr": "netaddr",
    "openstacksdk": "openstack",
    "psycopg": "psycopg",
    "pyghmi": "pyghmi",
    "requests": "requests",
    "SQLAlchemy": "sqlalchemy",
    "sushy": "sushy",
}


def _there(module: str) -> bool:
    """Looked for, not loaded."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class MissingLibrary(ConfigError):
    """A Python library that this verb needs is not there. Names the fix."""

    kind = "missing_library"

    def __init__(self, library: str, *, why: str = "", cause: str | None = None) -> None:
        others = [one for one in LIBRARIES if one != library and not _there(LIBRARIES[one])]
        also = f"; missing there as well, of what other tasks need: {' '.join(others)}" if others else ""
        super().__init__(
            f"the Python library {library} is not installed" + (f" ({why})" if why else ""),
            # Which Python that is, the controller's or a jump host's, is known here alone.
            do=f"on the machine that runs this: {sys.executable or 'python3'} -m pip install {library}"
            f" (execution environments: meta/ee-requirements.txt lists it){also}",
            details={"exception": cause} if cause else None,
        )


class OlderLedger(ConfigError):
    """The first run that may write brings its tables to this release."""


class Unreachable(FleetError):
    """In details, ``slow``: the seconds for which a request had no answer, where it was given up for that.

    :ivar of_peer: whether it is the peer that was asked, and not whom the run asks beside it, as for leave to write.
    """

    kind = "unreachable"
    of_peer = True


class AuthFailed(FleetError):
    kind = "auth"


class Refused(FleetError):
    kind = "refused"


class Changed(FleetError):
    kind = "changed"


class BadAnswer(FleetError):
    kind = "bad_answer"


class Unsupported(FleetError):
    kind = "unsupported"


class NotProven(FleetError):
    kind = "not_proven"


class DeadlineExceeded(NotProven):
    kind = "deadline"


class WrongMachine(FleetError):
    """What a peer tells of the machine contradicts what the inventory says of it; nothing was written."""

    kind = "wrong_machine"


class NotOurs(FleetError):
    kind = "not_ours"


class NotAdopted(NotOurs):
    """It is at work, and our ledger does not know it; nothing was written."""

    kind = "not_adopted"


class LeaseHeld(NotOurs):
    kind = "lease_held"


class LeaseLost(NotOurs):
    kind = "lease_lost"


class EvidenceMissing(NotOurs):
    kind = "evidence_missing"


class EvidenceOld(EvidenceMissing):
    """:ivar nodes: the names of all nodes of the write whose proof is to be renewed; kind_of_event: which one;
    from_age: what is as old as this is too old.
    """

    nodes: tuple[str, ...] = ()
    kind_of_event: str = "evidence"
    from_age: float = 0.0


class PermitDue(EvidenceMissing):
    """A module on another machine has come to a write that only the controller can give leave for."""

    kind = "permit_due"


class Fenced(FleetError):
    kind = "fenced"


class TrustError(FleetError):
    kind = "trust"


#: An order that ended with one of these was not taken: nothing was sent, or its peer said no. Any other kind leaves
#: open whether it was, also those of other places.
_NOT_TAKEN = (
    *(ConfigError, MissingLibrary, AuthFailed, Refused, Changed, Unsupported, WrongMachine),
    *(NotOurs, NotAdopted, LeaseHeld, LeaseLost, EvidenceMissing, EvidenceOld, PermitDue, Fenced, TrustError),
)
_MAY_BE_TAKEN = (FleetError, Unreachable, BadAnswer, NotProven, DeadlineExceeded)
NOT_TAKEN: Mapping[str, bool] = {
    **{one.kind: True for one in _NOT_TAKEN},
    **{one.kind: False for one in _MAY_BE_TAKEN},
}


def unexpected(exc: BaseException, *, node: str = "", address: str = "") -> FleetError:
    """Wrap what a library threw outside its own tree, so that no bare traceback reaches a user."""
    return BadAnswer(
        f"unexpected {type(exc).__name__}: {exc}",
        node=node,
        address=address,
        do="this is a defect of the collection or of the peer; please report it with the traceback in 'error'",
        details={"traceback": tail("".join(traceback.format_exception(type(exc), exc, exc.__traceback__)), 4000)},
    )
