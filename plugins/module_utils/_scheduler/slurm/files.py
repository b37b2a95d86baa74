# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topology as it lies beside slurm.conf. PRIVATE to the collection.

``topology.yaml`` counts from 25.05 on, and where it lies there ``topology.conf`` is not read at all. A broken one ends
a slurmctld that is started with it, and 22.05 at once. So the one before is put back where the new one is not taken.
Until it is, that one lies beside it: a run may be killed, and the next one finds nothing but the new one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.commands import TOPOLOGIES, Commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.shown import Partition
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import (
    BLOCK,
    TREE,
    Keeper,
    Topology,
)

CONF, YAML = "topology.conf", "topology.yaml"
FORMS = ("conf", "yaml")
_OURS = "# Written by gpufleet.baremetal.topology_file, which replaces it as a whole.\n"
#: The file that is kept beside it, and its first line: what it has below, and beside which texts that counts.
_BESIDE = ".before"
_KEPT = "# Kept by gpufleet.baremetal.topology_file until slurmctld goes by what it wrote:"
_THIS, _NOTHING = "this-stood-there", "nothing-stood-there"
#: man: 24.05 calls the sizes so; 23.11, the first with blocks, had another word for them.
_BLOCKS = (24, 5)
#: man: before 25.05 a block has as many nodes as the smallest size at least.
_WHOLE_BLOCKS = TOPOLOGIES
#: Slurm's daemons and commands read it as users of their own.
_MODE = 0o644


class File(Keeper):
    """:param path: empty for the one beside slurm.conf, as slurmctld tells where that is."""

    def __init__(self, commands: Commands, form: str, path: str) -> None:
        self._commands, self._form = commands, form
        folder = os.path.dirname(commands.setting("SLURM_CONF"))
        self.where = path or os.path.join(folder, CONF if form == "conf" else YAML)
        if not os.path.isdir(os.path.dirname(self.where) or "."):
            raise ConfigError(
                "there is no such folder on this machine",
                address=self.where,
                wanted="the machine that runs slurmctld, which reads the file",
                do="delegate the task to it, or name the file by path",
            )
        private.check_place(self.where, "the topology")
        self._partitions: list[Partition] | None = None

    # -- what stands in the way --------------------------------------------------------------------------------

    def obstacles(self, wanted: Sequence[Topology], *, told: bool) -> Iterator[str]:
        version = self._commands.version()
        yield from self._of_yaml(wanted, version) if self._form == "yaml" else self._of_conf(wanted, version)
        for one in wanted if told and self._form == "conf" else ():
            plugin = self._commands.setting("TopologyPlugin")
            if plugin != f"topology/{one.kind}":
                yield (
                    f"slurmctld goes by TopologyPlugin={plugin or 'nothing'}: write the file with reconfigure=false,"
                    f" set topology/{one.kind} in slurm.conf, and restart slurmctld"
                )

    def _of_yaml(self, wanted: Sequence[Topology], version: tuple[int, int]) -> Iterator[str]:
        if version < TOPOLOGIES:
            yield f"Slurm {_release(version)} reads no {YAML}, which came with {_release(TOPOLOGIES)}: take format conf"
        names = {one.name for one in wanted}
        if "" in names:
            yield f"in {YAML} each topology has a name"
        if len(wanted) > 1 and sum(one.default for one in wanted) != 1:
            yield "of several, one is the cluster's default"
        for one in self._all_partitions():
            if one.topology and one.topology not in names:
                yield f"the partition {one.name} goes by the topology {one.topology}, which is none of these"

    def _of_conf(self, wanted: Sequence[Topology], version: tuple[int, int]) -> Iterator[str]:
        beside = os.path.join(os.path.dirname(self.where), YAML)
        if os.path.exists(beside):
            yield f"{beside} lies beside it, so that Slurm reads no {CONF}: take format yaml"
        if len(wanted) > 1:
            yield f"{CONF} has one topology alone: take format yaml"
        for one in wanted:
            if one.kind == BLOCK and version < _BLOCKS:
                yield f"Slurm {_release(version)} has no BlockSizes, which came with {_release(_BLOCKS)}"
            small = [name for name in one.order if one.sizes and len(one.units[name]) < one.sizes[0]]
            if one.kind == BLOCK and small and version < _WHOLE_BLOCKS:
                yield f"{folded(small)} are smaller than {one.sizes[0]}, which Slurm takes from 25.05 on"

    def needed(self, wanted: Sequence[Topology]) -> Mapping[str, Collection[str]]:
        """Nodes of no partition stand with the default: somebody means to give them one."""
        found = {one.name: set[str]() for one in wanted}
        default = next((one.name for one in wanted if one.default), wanted[0].name if wanted else "")
        elsewhere: set[str] = set()
        for one in self._all_partitions():
            if one.topology in ("", default):
                found.setdefault(default, set()).update(one.nodes)
            else:
                found.setdefault(one.topology, set()).update(one.nodes)
                elsewhere |= one.nodes
        found.setdefault(default, set()).update(set(self.known()) - elsewhere)
        return found

    def known(self) -> Collection[str]:
        return self._commands.known().keys()

    def _all_partitions(self) -> list[Partition]:
        if self._partitions is None:
            self._partitions = self._commands.partitions()
        return self._partitions

    # -- the file ----------------------------------------------------------------------------------------------

    def stands(self) -> str | None:
        return self._read(self.where)

    def _read(self, path: str) -> str | None:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise ConfigError(f"the topology cannot be read: {exc.strerror}", address=path) from exc

    def is_ours(self, text: str) -> bool:
        return text.startswith(_OURS)

    def text(self, wanted: Sequence[Topology]) -> str:
        return _OURS + "".join(map(_yaml if self._form == "yaml" else _conf, wanted))

    def keep(self, former: str | None, texts: Sequence[str | None]) -> None:
        head = " ".join([_KEPT, _NOTHING if former is None else _THIS, *map(_digest, texts)])
        self._write(self.where + _BESIDE, f"{head}\n{former or ''}")

    def former(self, stands: str | None) -> str | None:
        head, _newline, text = (self._read(self.where + _BESIDE) or "").partition("\n")
        told = head.removeprefix(_KEPT).split()
        if not head.startswith(_KEPT) or _digest(stands) not in told:
            return stands
        return text if _THIS in told else None

    def drop(self) -> None:
        with suppress(OSError):  # one that stays says nothing beside any other text
            os.unlink(self.where + _BESIDE)

    def put(self, text: str | None, *, over: str | None) -> None:
        if self.stands() != over:
            raise Changed(
                "another topology stands there by now",
                address=self.where,
                wanted="what was read there before",
                seen="somebody else's, who has written it meanwhile" if self.stands() is not None else "no file",
                do="run again: what stands there now is looked at anew",
            )
        self._write(self.where, text)

    @staticmethod
    def _write(path: str, text: str | None) -> None:
        try:
            if text is None:
                os.unlink(path)
            else:
                private.write(path, text, _MODE)
        except OSError as exc:
            raise ConfigError(
                f"the topology cannot be written: {exc.strerror}",
                address=path,
                do="write as whoever owns slurm.conf: run the playbook as that user, or delegate the task with become",
            ) from exc

    # -- slurmctld ---------------------------------------------------------------------------------------------

    def request(self, *, write: bool) -> str:
        return f"write {self.where}; scontrol reconfigure" if write else "scontrol reconfigure"

    def tell(self) -> None:
        self._commands.reconfigure()

    def amiss(self, wanted: Sequence[Topology]) -> list[str]:
        found: list[str] = []
        for one in wanted:
            units = self._commands.topology(one.name if self._form == "yaml" else "")
            wanted_units = {name: frozenset(nodes) for name, nodes in one.units.items()}
            above = set(one.switches)
            found += [f"{name} is not there" for name in in_order({*wanted_units, *above} - set(units))]
            found += [f"{name} is there still" for name in in_order(set(units) - {*wanted_units, *above})]
            for name in in_order(set(units) & set(wanted_units)):
                if units[name].nodes != wanted_units[name]:
                    found.append(f"{name} has {folded(units[name].nodes) or 'no node'}")
            for name in in_order(set(units) & above):
                if units[name].below and units[name].below != frozenset(one.switches[name]):
                    found.append(f"{name} is above {folded(units[name].below)}")
        return found


def _digest(text: str | None) -> str:
    return "nothing" if text is None else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _release(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]:02}"


def _conf(one: Topology) -> str:
    if one.kind == TREE:
        leaves = [f"SwitchName={name} Nodes={folded(one.units[name])}\n" for name in one.order]
        tops = [f"SwitchName={name} Switches={_plain(one.switches[name])}\n" for name in in_order(one.switches)]
        return "".join([*leaves, *tops])
    blocks = [f"BlockName={name} Nodes={folded(one.units[name])}\n" for name in one.order]
    return "".join([*blocks, f"BlockSizes={','.join(map(str, one.sizes))}\n"])


def _yaml(one: Topology) -> str:
    head = [f'- topology: "{one.name}"', *(["  cluster_default: true"] if one.default else [])]
    if one.kind == TREE:
        head += ["  tree:", "    switches:"]
        for name in one.order:
            head += [f'      - switch: "{name}"', f'        nodes: "{folded(one.units[name])}"']
        for name in in_order(one.switches):
            head += [f'      - switch: "{name}"', f'        children: "{_plain(one.switches[name])}"']
    else:
        head += ["  block:", "    block_sizes:", *(f"      - {size}" for size in one.sizes), "    blocks:"]
        for name in one.order:
            head += [f'      - block: "{name}"', f'        nodes: "{folded(one.units[name])}"']
    return "\n".join(head) + "\n"


def _plain(names: Sequence[str]) -> str:
    """No brackets: whether a switch's name may have several of them no manual says."""
    return ",".join(in_order(names))
