# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a declared image decides what a node will boot. PRIVATE to the collection.

Who verifies an image and who deploys it are two ports that do not ask each other; by this they mean the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

#: The keys of ``gpufleet_image`` that any provisioner goes by.
DEPLOYED_BY = ("name", "version", "named", "url", "sha256", "kernel_url", "format")


def declaration(image: Mapping[str, Any]) -> str:
    """A digest of the declaration: an image with another address, kernel or digest is another one."""
    told = {key: str(image[key]).strip() for key in DEPLOYED_BY if image.get(key) not in (None, "")}
    return json_digest({**told, "sha256": bare_sha256(told["sha256"])} if "sha256" in told else told)


def rollout_digest(image: Mapping[str, Any]) -> str:
    """The digits by which a roll-out knows what it brings, and a person approves of it: those of the declaration. Where
    bytes with a digest lie is no part of them, as sites have the same image on several servers."""
    kept = {key: value for key, value in image.items() if key != "url"} if bare_sha256(image.get("sha256")) else image
    return bare_sha256(declaration(kept))


def bare_sha256(given: Any) -> str:
    """The digest alone and in small letters, however it was written (``sha256:ABC...``); empty where there is none."""
    return str(given or "").strip().lower().rpartition(":")[2]


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    """In what an image is another one than is wanted: the key, what was found, what is wanted. Nothing is any."""
    for key in ("name", "version", "sha256"):
        given = str((wanted or {}).get(key) or "")
        given = bare_sha256(given) if key == "sha256" else given
        if given and given != found.get(key):
            yield key, str(found.get(key) or "unknown"), given
