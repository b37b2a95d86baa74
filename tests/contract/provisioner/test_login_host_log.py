# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of BCM's installer on a login host is read as it is on this machine, and no more of it comes here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.install_log import (
    ENVIRONMENT,
    InstallLog,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from bcm_commands.site import BcmSite
from test_login_host import HOST, Way, ssh, way, words  # noqa: F401  # the same host, by the same sshd

pytestmark = pytest.mark.slow


def test_the_log_of_the_installer_is_read_there(
    started: Any,
    way: Way,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "a log"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    params = {**started(BcmSite).connection(), login_host.OPTION: HOST}
    with connected(params, Context()) as driver:
        far, here = InstallLog(driver), InstallLog()
        assert (far.mark(), far.since({"gpu001": "1.1"})) == ("", {})
        path.write_bytes("gpu001 node-installer: für\r\n".encode() + b"\xff\xfe\n" * 50_000)
        marks = {"gpu001": far.mark(), "gpu002": far.mark()}
        assert far.mark() == here.mark() and far.since(marks) == here.since(marks) == {"gpu001": [], "gpu002": []}
        with path.open("ab") as file:
            file.write("é gpu001 node-installer: Installmode is: FULL\n".encode() * 2000)
        assert far.since(marks) == here.since(marks) and len(far.since(marks)["gpu001"]) == 2000
        way.most, way.at = 4000, "grep"
        with path.open("ab") as file:
            file.write(b"x gpu003 node-installer: Installmode is: NEW\n" * 50_000)
            file.write(b"x gpu002 node-installer: a\rb\r\n")
        late = {"gpu002": marks["gpu002"]}
        assert far.since(late) == here.since(late) == {"gpu002": ["a\rb\r"]}, "what was written of others stays there"
        way.most = None
        path.rename(tmp_path / "old")
        path.write_bytes(b"x gpu002 node-installer: Installmode is: AUTO\n")
        assert far.since(marks) == here.since(marks) == {"gpu002": ["Installmode is: AUTO"]}
        way.away = "No route to host"
        with pytest.raises(FleetError):
            far.since(marks)


def test_what_was_written_of_a_node_before_its_order_proves_no_newer_one(
    started: Any,
    way: Way,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read as well where another one's order came before."""
    path, marks = tmp_path / "log", {}
    monkeypatch.setenv(ENVIRONMENT, str(path))
    path.write_bytes(b"x gpu001 node-installer: Installmode is: FULL\n")
    with connected({**started(BcmSite).connection(), login_host.OPTION: HOST}, Context()) as driver:
        far, here = InstallLog(driver), InstallLog()
        for name in ("gpu001", "gpu002"):
            marks[name] = far.mark()
            with path.open("ab") as file:
                file.write(b"x gpu002 node-installer: Installmode is: FULL\n")
        with path.open("ab") as file:
            file.write(b"x gpu001 node-installer: Installmode is: AUTO\n")
        told = {"gpu001": ["Installmode is: AUTO"], "gpu002": ["Installmode is: FULL"]}
        assert far.since(marks) == here.since(marks) == told, "one of the two lines of gpu002"


def test_a_log_that_was_not_read_to_its_end_tells_of_nobody(
    started: Any,
    way: Way,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that was cut since somebody asked how long it is: that it has none of a node would tell of none."""
    path = tmp_path / "log"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    path.write_bytes(b"x gpu001 node-installer: a\ngpufleet: the end\nx gpu002 node-installer: b\n" * 2)
    with connected({**started(BcmSite).connection(), login_host.OPTION: HOST}, Context()) as driver:
        log = InstallLog(driver)._file
        inode, size = log.about() or (0, 0)
        told = list(log.read(inode, 0, size, ["gpu001"]) or ())
        assert [line for _at, line in told if b"gpu" in line] == [
            b"x gpu001 node-installer: a",
            b"gpufleet: the end",
        ] * 2
        assert log.read(inode, 0, size + 1, ["gpu001"]) is None and log.read(inode + 1, 0, size, ["gpu001"]) is None
