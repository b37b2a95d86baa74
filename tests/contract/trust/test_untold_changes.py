# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that says nothing by which a changed file is noticed: no look goes by what was read before it began."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from contract.trust.test_artifact import findings, verify

ARTIFACT = "/hpc-1.4.tar.gz"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def swapped(image: Any) -> None:
    """Other bytes of the same length."""
    content = image.artifact.read_bytes()
    image.artifact.write_bytes(b"X" + content[1:])


@pytest.mark.parametrize("tells", [True, False])
def test_v9_a_file_that_changed_in_this_run_is_read_again(image: Any, web: Any, tells: bool) -> None:
    web.tells = tells
    declared = image.declared(base=web.url)
    assert verify(declared, run_cache="run-1")["verdict"] == "pass"
    swapped(image)
    web.changed = "Thu, 26 Nov 2026 10:00:00 GMT"
    changed = verify(declared, run_cache="run-1")
    assert changed["verdict"] == "fail" and findings(changed) == {"tampered_artifact"}


@pytest.mark.parametrize("tells", [True, False])
def test_v9_so_is_one_that_is_signed_itself(image: Any, web: Any, keys: Any, tells: bool) -> None:
    web.tells = tells
    (image.folder / "own.asc").write_bytes(keys.sign("images", image.artifact.read_bytes()))
    url = f"{web.url}/own.asc"
    declared = image.declared(base=web.url, checksums_url=None, signature_url=url, sha256=None)
    assert verify(declared, run_cache="run-1")["verdict"] == "pass"
    swapped(image)
    web.changed = "Thu, 26 Nov 2026 10:00:00 GMT"
    assert verify(declared, run_cache="run-1")["verdict"] == "fail"


def test_v9_one_reading_serves_all_looks_that_had_begun_before_it(image: Any, web: Any) -> None:
    """Else each host of a batch would read the whole image anew."""
    web.tells = False
    fork = multiprocessing.get_context("fork")
    declared, answers, together = image.declared(base=web.url), fork.Queue(), fork.Barrier(6)
    web.slow = 0.5

    def one() -> None:
        together.wait(30)
        answers.put(verify(declared, run_cache="run-1")["verdict"])

    group = [fork.Process(target=one) for _number in range(6)]
    for process in group:
        process.start()
    assert [answers.get(timeout=60) for _process in group] == ["pass"] * 6
    for process in group:
        process.join(30)
    # Each looks at what the server tells; the first reads, and the second for all those that came while it did.
    assert web.asked.count(ARTIFACT) <= 6 + 3
