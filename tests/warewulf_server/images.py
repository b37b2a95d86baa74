# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: what a registry brings, and what is built of it."""

from __future__ import annotations

import re
from typing import Any

from .answers import Answer, invalid, not_found, told
from .conf import with_profiles

_NAME = re.compile(r"[\w./:-]+")


def images(server: Any, _name: str, _body: Any, _headers: Any) -> Answer:
    return told(server.config.images)


def image(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    found = server.config.images.get(name)
    return told(found) if found else not_found(f"image not found: {name}")


def import_image(server: Any, name: str, body: Any, _headers: Any) -> Answer:
    """A registry serves what its digest says; one that breaks off leaves a part, which reads like a whole image."""
    uri = str(body.get("uri", ""))
    if not uri.startswith("docker://"):
        return told({"error": "uri only supports docker:// prefix for now"}, 500)
    if not _NAME.fullmatch(name):
        return told({"error": f"VNFS name contains illegal characters: {name}"}, 500)
    if name in server.config.images:
        return told({"error": f"VNFS name exists, but overwrite not enabled: {name}"}, 500)
    found = server.registry.get(uri)
    if found is None:
        return told({"error": f"could not import image: reading manifest {uri}: manifest unknown"}, 500)
    server.config.images[name] = {**found, "buildtime": 0, "size": 0}
    if uri in server.breaks:
        return told({"error": "could not import image: unexpected EOF"}, 500)
    return told(server.config.images[name])


def delete_image(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    """What a node or a profile names stays."""
    if name not in server.config.images:
        return not_found(f"image not found: {name}")
    content = server.conf.load()
    nodes = sum(with_profiles(content, one).get("image name") == name for one in content["nodes"])
    profiles = sum(one.get("image name") == name for one in content["nodeprofiles"].values())
    if nodes or profiles:
        return invalid(f"image '{name}' is in use by {nodes} nodes and {profiles} profiles")
    return told(server.config.images.pop(name))


def build_image(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    if name not in server.config.images:
        return told({"error": f"image does not exist: {name}"}, 500)
    server.build_image(name)
    return told(server.config.images[name])


def rename_image(server: Any, name: str, body: Any, _headers: Any) -> Answer:
    new = str(body.get("name") or name)
    if name not in server.config.images or new in server.config.images:
        return told({"error": f"{name} not found" if name not in server.config.images else f"{new} exists"}, 500)
    server.config.images[new] = server.config.images.pop(name)
    return told(server.config.images[new])


ROUTES: Any = {
    ("GET", "images", "", False): images,
    ("GET", "images", "", True): image,
    ("POST", "images", "import", True): import_image,
    ("POST", "images", "build", True): build_image,
    ("PATCH", "images", "", True): rename_image,
    ("DELETE", "images", "", True): delete_image,
}
