# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at everything that a run needs, for a whole batch: what each check is given. PRIVATE to the collection.

Variables are read in one thread, since templates are made for one; peers are asked by several.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.display import Display
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    Unreachable,
    unexpected,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import Cause, cause_of, of_the_list

display = Display()
T = TypeVar("T")
Whose = Callable[[FleetError], str]
#: By what a host is called and reached: two that differ in nothing else have one trouble.
_ITS_OWN = (
    *("gpufleet_serial", "gpufleet_system_uuid", "gpufleet_boot_mac", "gpufleet_bmc_address", "gpufleet_node_id"),
    *("gpufleet_provisioner_id", "gpufleet_scheduler_node", "gpufleet_bmc_system_id", "ansible_host"),
)


class Record(Protocol):
    """What the ledger has of hosts; nothing where it cannot be asked, which the look at it has told."""

    def certificate(self, host: str) -> str: ...

    def serials(self, host: str) -> Sequence[str]: ...

    def holds(self) -> Mapping[str, Mapping[str, Any]]: ...

    def deployments(self) -> Mapping[str, Mapping[str, Any]]: ...

    def moves(self) -> Mapping[str, Mapping[str, Any]]: ...


class Batch:
    """The hosts of one look, what is set for them, and what was found so far.

    :param variable: a variable of a host, as a task of its own would see it; None where it is not set.
    :param names: the names of all variables of a host.
    :param threads: how many peers are asked at once.
    :param record: what the ledger has of these hosts; without one, nothing.
    :param raw: a variable of a host as it was written.
    :param run: tells this run from every other one; its hosts have one patience with a service that is away.
    :param skipped: looks that are left out.
    """

    def __init__(
        self,
        hosts: Collection[str],
        variable: Callable[[str, str], Any],
        names: Callable[[str], Collection[str]],
        threads: int,
        record: Record | None = None,
        raw: Callable[[str, str], Any] = lambda host, name: None,
        run: str = "",
        skipped: Collection[str] = (),
    ) -> None:
        self.hosts = list(hosts)
        self.skipped = frozenset(skipped)
        self.names = names
        self.threads = threads
        self.raw = raw
        self.found: dict[str, list[Cause]] = {host: [] for host in self.hosts}
        self._variable = variable
        self._record = record
        self._known: dict[tuple[str, str], Any] = {}
        #: Settings that nothing can be asked by: they are told once, by the check of settings.
        self.spoilt: set[tuple[str, str]] = set()
        self._away = away.Away(run)
        #: Services for which was waited in vain: nobody waits for one again.
        self._silent: dict[str, Unreachable] = {}

    # -- settings ----------------------------------------------------------------------------------------------

    def read(self, host: str, name: str) -> Any:
        """:raises ConfigError: where it cannot be read."""
        key = (host, name)
        if key not in self._known:
            try:
                self._known[key] = self._variable(name, host)
            except ConfigError as exc:
                self._known[key] = exc
        if isinstance(self._known[key], ConfigError):
            raise self._known[key]
        return self._known[key]

    def variable(self, name: str, host: str) -> Any:
        """The same, as other parts ask for it."""
        return self.read(host, name)

    def value(self, host: str, name: str) -> Any:
        """None where it is not set, is empty, or is of no use: the check of settings has told why."""
        if (host, name) in self.spoilt:
            return None
        try:
            found = self.read(host, name)
        except ConfigError:
            return None
        return None if found == "" else found

    def text(self, host: str, name: str) -> str:
        found = self.value(host, name)
        return "" if found is None else str(found)

    def options(self, host: str, spec: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The options that variables of the host fill, as a verb has them; None where nothing is set.

        :raises ConfigError: where a verb would not take them.
        """
        given = {name: self.value(host, f"gpufleet_{name}") for name in spec}
        checked = ArgumentSpecValidator({name: dict(one) for name, one in spec.items()}).validate(
            {name: value for name, value in given.items() if value is not None}
        )
        if checked.error_messages:
            raise ConfigError("; ".join(checked.error_messages), do="correct the variable")
        return {**given, **checked.validated_parameters}

    def with_all(self, *names: str) -> Iterator[str]:
        """The hosts that have all of these."""
        return (host for host in self.hosts if all(self.value(host, name) is not None for name in names))

    def alike(self, hosts: Iterable[str], key: Callable[[str], T]) -> dict[str, tuple[T, list[str]]]:
        """The hosts for which the same is set, so that it is looked at once: what is set, and they."""
        groups: dict[str, tuple[T, list[str]]] = {}
        for host in hosts:
            said = key(host)
            groups.setdefault(repr(said), (said, []))[1].append(host)
        return groups

    def own(self) -> dict[str, list[str]]:
        """By host, what it alone is called and reached by; also what is of no use, which a message tells."""
        return {host: [host, *self._called(host)] for host in self.hosts}

    def _called(self, host: str) -> Iterator[str]:
        for name in _ITS_OWN:
            with contextlib.suppress(ConfigError):
                yield str(self.read(host, name) or "")

    # -- the ledger --------------------------------------------------------------------------------------------

    def certificate(self, host: str) -> str:
        """That of its BMC, where one is fixed."""
        return self._record.certificate(host) if self._record else ""

    def serials(self, host: str) -> Sequence[str]:
        """By which its node is known."""
        return self._record.serials(host) if self._record else ()

    def holds(self) -> Mapping[str, Mapping[str, Any]]:
        """By host, what is known of holds at its scheduler."""
        return self._record.holds() if self._record else {}

    def deployments(self) -> Mapping[str, Mapping[str, Any]]:
        """By host, what is known of it to whoever asks its provisioner."""
        return self._record.deployments() if self._record else {}

    def moves(self) -> Mapping[str, Mapping[str, Any]]:
        """By host, the newest word of its way from one provisioner to another."""
        return self._record.moves() if self._record else {}

    # -- what was found ----------------------------------------------------------------------------------------

    def tell(self, hosts: Iterable[str], cause: Cause) -> None:
        for host in hosts:
            self.found[host].append(cause)

    def try_for(
        self, hosts: Iterable[str], check: str, look: Callable[..., Any], *given: Any, whose: Whose = of_the_list
    ) -> None:
        """A look on behalf of these hosts: what it raises is what is wrong."""
        try:
            look(*given)
        except FleetError as exc:
            self.tell(hosts, cause_of(check, exc, whose))
        except Exception as exc:  # a library's surprise must not end the look at everything else
            self.tell(hosts, cause_of(check, unexpected(exc), whose))

    def heard(self, service: str, look: Callable[[], T]) -> T:
        """A look at one service, begun anew while that is away and the run has patience with it.

        What a look has told before it is begun anew counts no more.

        :raises Unreachable: where it stays away, for all who ask it in the same words.
        """
        if service in self._silent:
            raise self._silent[service]
        before = {host: tuple(causes) for host, causes in self.found.items()}
        met: list[Unreachable] = []

        def asked() -> T:
            for host, causes in before.items():
                self.found[host][:] = causes
            try:
                return look()
            except Unreachable as exc:
                met.append(exc)
                raise

        def alive() -> None:
            if len(met) == 1:
                told = met[0].located(address=service)
                display.display(f"{told.what} ({told.address}): asked again for up to {away.AWAY_SECONDS:.0f} s")

        try:
            return self._away.heard(service, asked, beat=alive)
        except Unreachable as exc:
            if not exc.details.get("tls"):  # what vouches for a certificate may be set for each host
                self._silent[service] = exc
            raise

    def each(
        self, check: str, asked: Mapping[str, T], look: Callable[[str, T], None], whose: Whose = of_the_list
    ) -> None:
        """A look at each host's own peer, several at once. What it is given was read before."""
        if not asked:
            return
        run = os.getppid()

        def looked(host: str, one: T) -> None:
            if os.getppid() == run:  # else nobody waits for what this would find, and a fleet's BMCs were asked on
                look(host, one)

        with ThreadPoolExecutor(max_workers=min(self.threads, len(asked))) as pool:
            for host, future in [(host, pool.submit(looked, host, one)) for host, one in asked.items()]:
                self.try_for([host], check, future.result, whose=whose)
