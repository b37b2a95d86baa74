# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where messages of monitors come in: read, and answered one by one. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts import alertmanager
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.kinds import KINDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import Said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.taken import (
    Answer,
    Rules,
    give_back,
    opened,
    take,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: Arguments that are mappings, and of what.
_TEXTS: Mapping[str, str] = {
    "names": "a host of the inventory by each name that a monitor has for one",
    "labels": "the value of each label that an alert of this fleet has, for instance {cluster: ulm}",
}


@dataclass(frozen=True)
class Desk:
    """kinds: who may speak here. labels: of Alertmanager, those that name a node, the first that an alert has."""

    ledger_url: str = ""
    kinds: Sequence[str] = tuple(KINDS)
    labels: Sequence[str] = ()
    rules: Rules = field(default_factory=Rules)

    def answers(self, asker: Holder, kind: str, document: Any) -> tuple[list[Answer], FleetError | None]:
        """Each in a transaction of its own: what was written down of the first is to be launched, whatever the next is.

        :returns: the answers as far as it came, and why it came no further: the message is to be sent again then.
        :raises FleetError: where it cannot be read, or the ledger cannot be opened.
        """
        said = self._read(kind, document)
        told: list[Answer] = []
        if not said:
            return told, None
        with opened(self.ledger_url) as ledger:
            for one in said:
                try:
                    told.append(take(ledger, asker, one, self.rules))
                except FleetError as exc:
                    return told, exc
        return told, None

    def give_back(self, asker: Holder, answers: Sequence[Answer]) -> None:
        """What was written down as launched, and nobody took.

        :raises FleetError: where the ledger cannot be asked.
        """
        with opened(self.ledger_url) as ledger:
            give_back(ledger, asker, answers)

    def _read(self, kind: str, document: Any) -> list[Said]:
        if kind == alertmanager.NAME and self.labels:
            return alertmanager.read(document, self.labels)
        return KINDS[kind](document)


def desk(args: Mapping[str, Any], namesake: Callable[[Ledger, str, str], str] = Rules.namesake) -> Desk:
    """From what a rulebook says; a number that was a template is a text there.

    :param namesake: see Rules.
    :raises ConfigError: naming the argument.
    """
    kinds = args.get("kinds") or list(KINDS)
    if not isinstance(kinds, list) or not set(kinds) <= set(KINDS):
        raise ConfigError("kinds of monitors that nobody reads", wanted=", ".join(KINDS), seen=str(kinds))
    numbers = [one.name for one in fields(Rules) if one.name in args and isinstance(one.default, (int, float))]
    texts = {name: _texts(args.get(name) or {}, name, wanted) for name, wanted in _TEXTS.items()}
    given: dict[str, Any] = {**{name: _number(args[name], name) for name in numbers}, **texts}
    rules = Rules(**given, namesake=namesake)
    return Desk(str(args.get("ledger_url") or ""), kinds, _labels(args.get("node_labels") or []), rules)


def _labels(told: Any) -> tuple[str, ...]:
    if isinstance(told, list) and all(isinstance(one, str) and one for one in told):
        return tuple(told)
    raise ConfigError("node_labels is no list of labels", wanted="for instance [Hostname]", seen=str(told))


def _texts(told: Any, name: str, wanted: str) -> dict[str, str]:
    if isinstance(told, dict) and all(isinstance(part, str) for pair in told.items() for part in pair):
        return told
    raise ConfigError(f"{name} is no mapping of texts", wanted=wanted, seen=str(told))


def _number(told: Any, name: str) -> Any:
    try:
        number = float(told)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number < float("inf"):
        raise ConfigError(f"{name} is no number above 0", seen=str(told))
    return int(number) if name == "most" else number
