# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPL, which solves one system of equations on all CPUs: what it is asked for, and what it prints. PRIVATE.

PRIVATE to the collection. HPL ends with 0 whatever it has computed; whether it is right its residual says, and how fast
a line of figures. It reads what it is to do from a file HPL.dat where it is started.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.seen import Seen

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_VERSION = re.compile(r"^HPLinpack (\S+)", re.M)
#: Variant, order, blocking, grid, seconds and Gflop/s.
_ROW = re.compile(r"^W[RC]\S+ +(\d{1,9}) +(\d{1,6}) +(\d{1,6}) +(\d{1,6}) +(\S+) +(\S+)", re.M)
_RESIDUAL = re.compile(r"^\|\|Ax-b\|\|_oo/.*= *(\S+) \.+ *(\w+)", re.M)
_PASSED = re.compile(r"^ +(\d{1,6}) tests completed and passed residual checks,?$", re.M)
_FAILED = re.compile(r"^ +(\d{1,6}) tests completed and failed residual checks,?$", re.M)
_END = "End of Tests."
#: What is left of 2/3 N^3 floating point operations where time and Gflop/s do not fit each other.
_ALIKE = 0.02
_DAT = """\
HPLinpack benchmark input file
made by gpufleet.baremetal
HPL.out
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{order}
1            # of NBs
{block}
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}
{columns}
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
"""


@dataclass(frozen=True)
class Solve:
    """A system of so many equations, in blocks, on a grid of ranks, and the Gflop/s that it must be solved with."""

    name: str
    order: int
    block: int
    rows: int
    columns: int
    minimum: float
    source: str

    @property
    def cell(self) -> str:
        return f"solve.{self.name}"

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        return f"Gflop/s, HPL, N {self.order}, NB {self.block}, {self.rows} x {self.columns}"

    @property
    def gib(self) -> float:
        """How much memory the system takes."""
        return self.order**2 * 8 / (1 << 30)


def solves_of(section: Mapping[str, Any]) -> tuple[Solve, ...]:
    found = tuple(_solve(row) for row in section.get("solves") or [])
    if len({one.name for one in found}) != len(found) or not all(map(_solvable, found)):
        raise ValueError("a system without a name of its own, an order, a block, a grid or a floor")
    return found


def _solve(row: Mapping[str, Any]) -> Solve:
    order, block, rows, columns = (int(row[key]) for key in ("order", "block", "rows", "columns"))
    return Solve(str(row["name"]), order, block, rows, columns, float(row["minimum"]), str(row["source"]))


def _solvable(one: Solve) -> bool:
    least = min(one.order, one.block, one.rows, one.columns)
    return bool(_NAME.match(one.name)) and least >= 1 and one.block <= one.order and one.minimum > 0


def dat(one: Solve) -> str:
    """What HPL.dat says."""
    return _DAT.format(order=one.order, block=one.block, rows=one.rows, columns=one.columns)


def command(program: Sequence[str], one: Solve, folder: str) -> list[str]:
    """Started in that folder. program: with ``{ranks}`` where their number belongs."""
    ranks = str(one.rows * one.columns)
    return ["env", "-C", folder, *(word.replace("{ranks}", ranks) for word in program)]


def read(text: str, one: Solve) -> Seen:
    versions = _VERSION.findall(text)
    seen = Seen(versions[0] if len(versions) == 1 else "")
    _residual(seen, text)
    rows = _ROW.findall(text)
    if len(rows) != 1 or _END not in text:
        seen.problems.append("it shows no line of figures, or several, or was cut")
        return seen
    *asked, seconds, rate = rows[0]
    if [int(word) for word in asked] != [one.order, one.block, one.rows, one.columns]:
        seen.problems.append(f"it solved {' '.join(asked)}, and was asked for another system")
        return seen
    found, took = _number(rate), _number(seconds)
    done = (2 / 3 * one.order**3 + 1.5 * one.order**2) / 1e9
    if not found or not took or not math.isclose(found * took, done, rel_tol=_ALIKE):
        seen.problems.append("its time and its Gflop/s do not fit each other")
        return seen
    seen.rate = None if seen.problems or seen.wrong else found
    return seen


def _residual(seen: Seen, text: str) -> None:
    """One residual, and the count at its end, have to say that it is right."""
    told, passed, failed = _RESIDUAL.findall(text), _PASSED.findall(text), _FAILED.findall(text)
    if any(word == "FAILED" for _value, word in told) or any(int(count) for count in failed):
        seen.wrong.append(f"the residual is {short(told[0][0], 20) if told else 'too large'}")
    elif [word for _value, word in told] != ["PASSED"] or (passed, failed) != (["1"], ["0"]):
        seen.problems.append("it does not tell whether its solution is right")


def _number(word: str) -> Optional[float]:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
