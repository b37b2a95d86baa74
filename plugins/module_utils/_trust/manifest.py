# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node manifest as it is published beside an image, and what it says. PRIVATE to the collection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _fetch as fetch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import checksums
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.runcache import RunCache
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

#: The manifest's keys that a node can be held against.
MANIFEST_KEYS = ("name", "version", "kernel", "driver", "cuda", "fabric_manager")


def cells(image: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What must be looked at where a signed list names a manifest."""
    if image.get("manifest_url") and image.get("checksums_url"):
        name = fetch.basename(image["manifest_url"])
        yield from ((cell, name) for cell in ("manifest", "manifest_name", "manifest_version"))


def judge(
    params: Mapping[str, Any],
    image: Mapping[str, Any],
    signed: Mapping[str, Any],
    cache: RunCache,
    judgement: Judgement,
    known: dict[str, Any],
) -> None:
    """The manifest as published must be the signed one; its content is what a node is held against."""
    name = fetch.basename(image["manifest_url"])
    wanted = checksums.listed(signed["digests"], name, "the manifest")

    def find() -> dict[str, Any]:
        content = fetch.read_small(image["manifest_url"], **fetch.how(params))
        return {"sha256": hashlib.sha256(content).hexdigest(), "text": content.decode("utf-8", "replace")}

    read = cache.get(["manifest", image["manifest_url"], wanted], find)
    verdict = judgement.same(
        "manifest",
        entity=name,
        measured=read["sha256"],
        wanted=wanted,
        source=f"SHA256SUMS signed by {signed['signer']}",
        finding="tampered_manifest",
        text=f"the manifest {name} is not the one that was signed",
    )
    if verdict == PASS:
        known["manifest_sha256"] = wanted
        known["manifest"] = manifest = read_manifest(read["text"])
        for key in ("name", "version"):
            judgement.same(
                f"manifest_{key}",
                entity=name,
                measured=manifest[key],
                wanted=image[key],
                source="gpufleet_image",
                finding="other_image_declared",
                text=f"the signed manifest is one of {manifest['name']} {manifest['version']},"
                f" gpufleet_image declares {image['name']} {image['version']}",
            )


def read_manifest(text: str) -> dict[str, str]:
    """The manifest's content.

    :raises BadAnswer: where it is not schema 1, or lacks a key.
    """
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    good = isinstance(content, dict) and content.get("schema") == 1
    if not good or not all(isinstance(content.get(key), str) for key in MANIFEST_KEYS):
        raise BadAnswer(
            "the node manifest cannot be read",
            wanted=f"JSON with schema 1 and the strings {', '.join(MANIFEST_KEYS)}",
            do="have the image built with a manifest as docs/reference/node-manifest.md describes it",
        )
    return {key: content[key] for key in (*MANIFEST_KEYS, "built") if isinstance(content.get(key), str)}
