# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder for locks or jobs is this user's alone, and a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import own_folder

NOBODY = 65534


def folder(path: Path) -> str:
    return own_folder(str(path), "locks", denied="look for rights", foreign="remove it")


def test_t1_a_folder_is_made_and_found_again(tmp_path: Path) -> None:
    assert folder(tmp_path / "own") == folder(tmp_path / "own") == str(tmp_path / "own")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


def test_t1_a_folder_of_another_user_is_not_ours_however_private_it_is(tmp_path: Path) -> None:
    """Its owner can rename and remove what lies in it: a lock that somebody else can take away is none."""
    theirs = Path("/root") if os.geteuid() else tmp_path / "theirs"
    if not os.geteuid():
        theirs.mkdir(mode=0o700)
        os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match="not ours alone") as refused:
        folder(theirs)
    assert f"user {theirs.lstat().st_uid}" in refused.value.seen and refused.value.do == "remove it"


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_t1_what_is_no_folder_is_refused_before_anything_is_put_there(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    place.touch(mode=0o600) if kind == "file" else os.mkfifo(place, 0o600)
    with pytest.raises(ConfigError, match="not ours alone"):
        folder(place)


def test_t1_a_folder_without_a_parent_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be made"):
        folder(tmp_path / "none" / "own")
