# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One digest in two spellings is one image, to whoever verifies it, deploys it, notes it and asks for it."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import (
    declaration,
    differing,
    rollout_digest,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import covers

BARE = "ab" * 32
SPELLINGS = [BARE, BARE.upper(), f"sha256:{BARE}", f" SHA256:{BARE.upper()} "]


def declared(digest: str) -> dict[str, str]:
    return {"name": "hpc", "version": "1.4", "url": "http://127.0.0.1:9/hpc", "sha256": digest}


@pytest.mark.parametrize("digest", SPELLINGS)
def test_u8_however_a_digest_is_written_it_is_the_same_image(digest: str) -> None:
    image = Image.of(declared(digest))
    assert image is not None and image.sha256 == BARE
    assert image.is_noted(declared(BARE)) and image.is_noted(declared(digest)), "by an older release, as it was written"
    assert not image.is_noted(declared("cd" * 32))
    assert declaration(declared(digest)) == declaration(declared(BARE)) != declaration(declared("cd" * 32))
    assert not list(differing(declared(BARE), declared(digest)))
    assert [key for key, _has, _given in differing(declared("cd" * 32), declared(digest))] == ["sha256"]
    assert covers({"image": declared(digest)}, {"image": declared(BARE)})
    assert not covers({"image": declared(digest)}, {"image": declared("cd" * 32)})


NETWORK = {"named": "golden", "kernel_url": "http://127.0.0.1:9/vmlinuz", "format": "ramdisk"}


@pytest.mark.parametrize("key", ["name", "version", "named", "sha256", "kernel_url", "format"])
def test_another_kernel_name_or_digest_is_another_roll_out(key: str) -> None:
    image = {**declared(BARE), **NETWORK}
    for other in ({**image, key: "cd" * 32}, {name: value for name, value in image.items() if name != key}):
        assert rollout_digest(other) != rollout_digest(image) != ""


def test_where_it_lies_makes_another_roll_out_of_what_has_no_digest_alone() -> None:
    def on(server: str, digest: str | None) -> str:
        return rollout_digest({**declared(str(digest)), "sha256": digest, "url": f"http://{server}/hpc"})

    assert on("a", BARE) == on("b", f"sha256:{BARE.upper()}") != on("a", "cd" * 32)
    assert on("a", "") == on("a", None) != on("b", "")
