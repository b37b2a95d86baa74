# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot flags that no simulator at hand can show: set, gone, and to stay (IPMI 2.0, table 28-14)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.boot import IpmiBoot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer

PXE, DISK = 0x04, 0x08


class Flags:
    """The machine behind a BMC that answers Get System Boot Options so."""

    address = "ipmi://bmc:623"

    def __init__(self, parameter: int, *flags: int) -> None:
        self._answer = bytes([1, parameter, *flags, 0, 0, 0])

    def ask(self, *request: Any, **more: Any) -> bytes:
        return self._answer


def override(parameter: int, *flags: int) -> c.BootOverride:
    machine: Any = Flags(parameter, *flags)
    return IpmiBoot(machine).override()


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ((0x80, PXE), c.BootOverride(c.ONCE, c.PXE, c.LEGACY)),
        ((0xA0, PXE), c.BootOverride(c.ONCE, c.PXE, c.UEFI)),
        ((0xC0, PXE), c.BootOverride(c.CONTINUOUS, c.PXE, c.LEGACY)),
        ((0xE0, DISK), c.BootOverride(c.CONTINUOUS, "disk", c.UEFI)),
        ((0x00, PXE), c.BootOverride(c.DISABLED, c.PXE, c.UNKNOWN)),
        ((0x60, PXE), c.BootOverride(c.DISABLED, c.PXE, c.UNKNOWN)),
        ((0x80, 0x30), c.BootOverride(c.ONCE, c.UNKNOWN, c.LEGACY)),
    ],
)
@pytest.mark.parametrize("locked", [0x00, 0x80])
def test_t1_boot_flags_say_once_for_good_or_nothing(flags: tuple[int, ...], shown: c.BootOverride, locked: int) -> None:
    assert override(0x05 | locked, *flags) == shown


def test_t1_another_parameter_is_no_boot_flag() -> None:
    with pytest.raises(BadAnswer, match="another boot parameter"):
        override(0x03, 0x80, PXE)


_OF_ANOTHER_VERSION = """
import pyghmi.ipmi.private.session as session
del session.ioqueue, session.Session.socketpool
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import MissingLibrary
import os
session.iothread = "its own"
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, str(session.iothread).encode())
    os._exit(0)
print(os.read(reading, 99).decode())
os.wait()
try:
    link.IpmiLink("bmc", "user", "password", wait=None, deadline=0.0)
except MissingLibrary as exc:
    print(exc)
"""


def test_another_pyghmi_is_told_as_that_and_nothing_of_it_is_half_forgotten_in_a_fork() -> None:
    """It would begin to forget, fail at the first name that is not there, and wait for ever at its first session."""
    pytest.importorskip("pyghmi")
    ran = subprocess.run(
        [sys.executable, "-c", _OF_ANOTHER_VERSION],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    kept, told = ran.stdout.split("\n", 1)
    assert kept == "its own" and not ran.stderr, ran.stderr
    assert "pyghmi~=1.6.10 is not installed" in told and "no ioqueue, Session.socketpool" in told, told
    assert "pip install pyghmi~=1.6.10" in told, told
