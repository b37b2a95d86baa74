# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SHA256SUMS: what is signed is understood wholly, or not used."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.checksums import listed, parse
from hypothesis import given
from hypothesis import strategies as st

ONE, OTHER = "a" * 64, "b" * 64
NAMES = st.text(st.sampled_from("abcXYZ019._- +()é"), min_size=1, max_size=30).filter(
    lambda name: name not in (".", "..")
)
DIGESTS = st.text(st.sampled_from("0123456789abcdef"), min_size=64, max_size=64)


FORMS = st.sampled_from(["{d}  {n}", "{d} *{n}", "SHA256 ({n}) = {d}"])


@given(st.dictionaries(NAMES, DIGESTS, min_size=1, max_size=8), FORMS)
def test_what_sha256sum_writes_is_read(sums: dict[str, str], form: str) -> None:
    text = "".join(form.format(d=digest, n=name) + "\n" for name, digest in sums.items())
    assert parse(text.encode()) == sums


@given(st.binary(max_size=300))
def test_noise_is_refused_and_never_breaks(content: bytes) -> None:
    try:
        found = parse(content)
    except FleetError:
        return
    assert found and all(len(digest) == 64 and "/" not in name for name, digest in found.items())


@given(NAMES, DIGESTS, DIGESTS)
def test_two_digests_for_one_name_are_a_contradiction(name: str, one: str, other: str) -> None:
    content = f"{one}  {name}\n{other} *{name}\n".encode()
    if one == other:
        assert parse(content) == {name: one}
        return
    with pytest.raises(TrustError) as caught:
        parse(content)
    assert caught.value.details["finding"] == "conflicting_checksums"


def test_the_real_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(b"x")
    for option in ([], ["--binary"], ["--tag"]):
        written = subprocess.run(["sha256sum", *option, "a file"], cwd=tmp_path, capture_output=True, check=True).stdout
        assert parse(written) == {"a file": hashlib.sha256(b"x").hexdigest()}


@pytest.mark.parametrize(
    "line",
    [
        f"{ONE}  ../etc/passwd",
        f"{ONE}  a/b",
        f"{ONE}  ..",
        f"{ONE} a",
        f"{ONE[:-1]}  a",
        f"{ONE}a  a",
        f"\\{ONE}  a\\nb",
        f"MD5 (a) = {ONE}",
        "words",
    ],
)
def test_a_line_of_another_form_makes_the_file_unusable(line: str) -> None:
    with pytest.raises(BadAnswer):
        parse(f"{OTHER}  good\n{line}\n".encode())


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only words\n", b"\xff\xfe"])
def test_an_empty_file_lists_nothing(content: bytes) -> None:
    with pytest.raises(BadAnswer):
        parse(content)


def test_what_is_not_listed_is_not_signed() -> None:
    assert listed({"a": ONE}, "a", "the artifact") == ONE
    with pytest.raises(TrustError, match="does not list the artifact") as caught:
        listed({"a": ONE}, "b", "the artifact")
    assert caught.value.details["finding"] == "not_listed"
