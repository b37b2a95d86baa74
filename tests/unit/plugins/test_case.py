# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One archive a case: the same again for the same, whole by its list, and without what nobody outside is to read."""

from __future__ import annotations

import io
import tarfile

from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._case import Case, named


def filled() -> Case:
    case = Case({"host": "n1", "name": "n1_S1"}, 1_800_000_000.0)
    case.text("node/mounts.txt", "https://bob:s3cretword@nas/x", "mounts")
    case.data("bmc/log.json", {"entries": [{"bmc_password": "s3cretword"}]}, "its log")
    case.copy("files/report.gz", b"\x00s3cretword as it was given", "the maker's own report")
    case.lack("node", "https://bob:s3cretword@nas does not answer")
    return case


def test_no_login_is_in_a_case_but_in_what_a_person_adds() -> None:
    packed, told = filled().archive()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        found = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    assert [name for name, content in found.items() if b"s3cretword" in content] == ["n1_S1/files/report.gz"]
    assert b"nas/x" in found["n1_S1/node/mounts.txt"] and "nas does not answer" in told["lacks"][0]
    assert next(iter(found)) == "n1_S1/MANIFEST.json"


def test_the_same_case_is_the_same_archive() -> None:
    assert filled().archive() == filled().archive()


def test_a_name_is_one_of_a_file_whatever_stands_in_it() -> None:
    assert named("gpu001", "", "RMA 47/11 ../x") == "gpu001_RMA-47-11-..-x"
