# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of slurm.conf that pages tell a reader to write, at a real slurmctld, and what is typed there."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from contract.docs.blocks import blocks
from contract.scheduler.slurm_cluster import Cluster, missing

pytestmark = [pytest.mark.slow, pytest.mark.needs_root, pytest.mark.skipif(bool(missing()), reason=missing())]
IDLE, REST = "docs/how-to/verify-idle-nodes.md", "docs/how-to/slurmrestd.md"


def part(page: str, word: str) -> str:
    [text] = [block.text for block in blocks(page) if word in block.text and not block.text.startswith("sacctmgr")]
    return text


@contextmanager
def with_part(folder: Path, text: str) -> Iterator[Cluster]:
    """A cluster of a slurm.conf that ends with these lines."""
    cluster = Cluster(folder)
    cluster.tokens = cluster.tokens and "AuthAltTypes" in text
    written = cluster.write_conf

    def write() -> None:
        written()
        # What it says of tokens itself is said by the page.
        own = [line for line in cluster.conf.read_text(encoding="ascii").splitlines() if not line.startswith("AuthAlt")]
        cluster.conf.write_text("\n".join([*own, text]), encoding="ascii")

    cluster.write_conf = write  # type: ignore[method-assign]
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def test_the_partition_of_the_page_yields_and_is_hidden(tmp_path: Path) -> None:
    text = part(IDLE, "PreemptType=")
    with with_part(tmp_path, text.replace(" ...", "")) as cluster:
        shown = cluster.scontrol("show", "config")
        for name, value in (("PreemptType", "preempt/partition_prio"), ("PreemptMode", "REQUEUE")):
            assert [line.split()[2] for line in shown.splitlines() if line.split()[:1] == [name]] == [value]
        found = {
            name: dict(pair.split("=", 1) for pair in cluster.scontrol("-a", "show", "partition", name).split())
            for name in ("verify", "batch")
        }
        wanted = {"PriorityTier": "1", "PreemptMode": "CANCEL", "GraceTime": "0", "MaxTime": "02:00:00"}
        wanted |= {"Hidden": "YES", "RootOnly": "YES", "OverSubscribe": "EXCLUSIVE"}
        assert wanted.items() <= found["verify"].items(), found["verify"]
        assert {"PriorityTier": "100", "PreemptMode": "OFF"}.items() <= found["batch"].items()


def test_a_slurmctld_with_the_lines_of_the_page_gives_the_token_that_it_types(tmp_path: Path) -> None:
    site = tmp_path / "gpufleet"
    site.mkdir()
    text = part(REST, "AuthAltTypes=").replace("/var/spool/slurm/jwt_hs256.key", str(tmp_path / "jwt.key"))
    typed = [line.removeprefix("# ") for line in part(REST, "scontrol token").splitlines()]
    with with_part(tmp_path, text) as cluster:
        if not cluster.tokens:
            pytest.skip("needs the Debian package slurmrestd")
        for line in typed:
            own = line.replace("/etc/gpufleet", str(site)).replace("username=slurm", "username=root")
            cluster.run("sh", "-ec", own)
    token = site / "slurm.jwt"
    assert token.read_text(encoding="ascii").startswith("SLURM_JWT=ey") and stat.S_IMODE(token.stat().st_mode) == 0o600
