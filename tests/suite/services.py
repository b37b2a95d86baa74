# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tests start other people's programs (Slurm, Ironic, a BMC emulator, a database server), and are slow by that.

One of these takes a second or more, so they are no part of what runs before each commit. A fixture that starts one is
marked with :func:`real`; a site of a contract suite, which stands as a parameter, says it itself (``real``, and
``many_calls`` where each call starts a program).
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar

import pytest

#: Fixtures that start other people's programs.
FIXTURES: set[str] = set()
#: Of a test that runs a driver many times and counts each of its calls.
MANY_RUNS = "many_runs"
#: Of a test over a driver each of whose calls starts a program.
PROGRAMS = "programs"
Made = TypeVar("Made", bound=Callable[..., Any])


def real(fixture: Made) -> Made:
    """Below ``pytest.fixture``: this one starts other people's programs."""
    FIXTURES.add(fixture.__name__)
    return fixture


def _sites(item: pytest.Item) -> list[type]:
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return [one for one in values if isinstance(one, type)]


def calls_programs(item: pytest.Item) -> bool:
    """Does each call of this test's driver start a program?"""
    return any(getattr(site, "many_calls", False) is True for site in _sites(item))


def started_by(item: pytest.Item) -> bool:
    """Does this test start one, by its fixtures or by the sites that it is run with?"""
    many_runs = item.get_closest_marker(MANY_RUNS) is not None
    return (many_runs and calls_programs(item)) or bool(asked(item))


def asked(item: pytest.Item) -> str:
    """Which of them this test asks; empty for none. ``IronicSite`` and the fixture ``ironic_site`` are both ironic."""
    names = [site.__name__ for site in _sites(item) if getattr(site, "real", False) is True]
    sites = [name.removesuffix("Site") or name for name in names]
    fixtures = sorted(name.partition("_")[0] for name in FIXTURES & set(getattr(item, "fixturenames", ())))
    return next(iter([*sites, *fixtures]), "").lower()
