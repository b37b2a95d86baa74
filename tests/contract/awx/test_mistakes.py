# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with what a site says to awx_setup, or with where it runs, is told before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from awx_server.server import AwxServer
from contract.awx import awx_site
from contract.awx.awx_site import MODULES, setup

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.is_dir(), reason="no awx.awx: make setup-awx fetches it"),
]


@pytest.fixture(scope="module")
def awx() -> Iterator[AwxServer]:
    server = AwxServer({})
    yield server
    server.close()


@pytest.mark.parametrize(
    ("site", "word"),
    [
        ({"awx_names": {"day3": "x"}}, "Unknown in awx_names: day3"),
        ({"awx_schedules": {"weekly": {}}}, "in awx_schedules: weekly"),
        ({"awx_schedules": {"nightly_look": {"enabeld": False}}}, "in one of them enabeld (each has enabled, at, rule"),
        ({"awx_schedules": {"nightly_look": False}}, "(each has enabled, at, rule, as a mapping)"),
        ({"awx_names": {"look": "GPU status"}}, "Called alike: GPU status"),
        ({"awx_project_url": ""}, "awx_project_url is not set"),
        ({"awx_slices": "many"}, "awx_slices"),
        ({"awx_state": "gone"}, "awx_state"),
        ({"awx_files": "/runner/project/files"}, "awx_files is /runner/project/files: it has to be a whole path"),
        ({"awx_files": "files"}, "awx_files is files: it has to be a whole path"),
    ],
)
def test_a_mistake_is_told_before_the_controller_is_asked(awx: AwxServer, site: dict[str, Any], word: str) -> None:
    asked = len(awx.asked)
    done = setup(awx, **site)
    assert done.returncode and word in " ".join((done.stdout + done.stderr).split()), done.stdout
    assert len(awx.asked) == asked


def test_without_the_collection_awx_awx_it_says_how_to_install_it(
    awx: AwxServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(awx_site, "MODULES", tmp_path)
    done = setup(awx)
    said = 'Install it by ansible-galaxy collection install "awx.awx:>=24.6.1"'
    assert done.returncode and said in " ".join(done.stdout.replace('\\"', '"').split()), done.stdout


def test_a_controller_that_refuses_is_not_taken_for_a_missing_collection(
    awx: AwxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awx, "refuses", "organizations")
    done = setup(awx)
    last = done.stdout.split("Say what is lacking")[-1]
    assert done.returncode and "Not now." in last and "ansible-galaxy" not in done.stdout, done.stdout
