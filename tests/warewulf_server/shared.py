# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes share: profiles, and overlays with their files.

After ``internal/pkg/warewulfd/api/{profile,overlay}.go`` and ``internal/pkg/overlay/overlay.go`` of 4.6.5 and 4.7.0.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

from .answers import Answer, failed, invalid, not_found, told
from .conf import PROFILE_FIELDS, Record, merged, read

# -- profiles ------------------------------------------------------------------------------------------------------


def profiles(server: Any, _name: str, _body: Any, _headers: Any) -> Answer:
    return told(server.conf.load()["nodeprofiles"])


def profile(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    found = server.conf.load()["nodeprofiles"]
    return told(found[name]) if name in found else not_found(f"profile not found: {name} (node/profile not found)")


def put_profile(server: Any, name: str, body: Any, headers: Any) -> Answer:
    """In the place of what stands there, whatever that is."""
    content = server.conf.load()
    if headers.get("If-None-Match") == "*" and name in content["nodeprofiles"]:
        return invalid(f"profile '{name}' already exists")
    return _stored(server, content, name, {}, body)


def patch_profile(server: Any, name: str, body: Any, _headers: Any) -> Answer:
    content = server.conf.load()
    if name not in content["nodeprofiles"]:
        return not_found("node/profile not found")
    return _stored(server, content, name, content["nodeprofiles"][name], body)


def _stored(server: Any, content: Any, name: str, before: Record, body: Any) -> Answer:
    given = read(body.get("profile") or {}, PROFILE_FIELDS)
    wrong = server.wrong(content, given)
    if wrong:
        return invalid(wrong)
    content["nodeprofiles"][name] = merged(before, given, append=False)
    server.conf.save(content)
    return told(content["nodeprofiles"][name])


def delete_profile(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    content = server.conf.load()
    users = [sum(name in one.get("profiles", ()) for one in content[kind].values()) for kind in content]
    if any(users):
        of = dict(zip(content, users))
        return invalid(f"profile '{name}' is in use by {of['nodes']} nodes and {of['nodeprofiles']} profiles")
    if name not in content["nodeprofiles"]:
        return failed(f"profile does not exist: {name}")
    gone = content["nodeprofiles"].pop(name)
    server.conf.save(content)
    return told(gone)


# -- overlays ------------------------------------------------------------------------------------------------------


def _overlay(server: Any, name: str) -> Record:
    """A copy that the site has stands before the distribution's own."""
    of_site = server.site_overlays.get(name)
    return {"files": sorted(of_site if of_site is not None else _OF_DISTRIBUTION), "site": of_site is not None}


#: Of each overlay that comes with Warewulf.
_OF_DISTRIBUTION = {"/etc/issue.ww": "Warewulf\n"}


def overlays(server: Any, _name: str, _body: Any, _headers: Any) -> Answer:
    return told({name: _overlay(server, name) for name in sorted(server.overlay_names())})


def overlay(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    return told(_overlay(server, name)) if name in server.overlay_names() else not_found(f"overlay not found: {name}")


def put_overlay(server: Any, name: str, _body: Any, _headers: Any) -> Answer:
    if name in server.overlay_names():
        return told({"status": "ALREADY_EXISTS", "error": f"already exists: {name} overlay already exists"}, 409)
    server.site_overlays[name] = {}
    return told(_overlay(server, name))


def overlay_file(server: Any, name: str, body: Any, _headers: Any) -> Answer:
    path = unquote_plus(body["?"].get("path", ""))
    files = server.site_overlays.get(name, _OF_DISTRIBUTION) if name in server.overlay_names() else {}
    if path not in files:
        return failed(f"unable to read overlay file {name}: {path}: open {path}: no such file or directory")
    of_root = {"perms": 420, "uid": 0, "gid": 0}
    return told({"overlay": name, "path": path, "contents": files[path], **of_root})


def put_overlay_file(server: Any, name: str, body: Any, headers: Any) -> Answer:
    """Of an overlay that there is none of, the overlay is made, and the file is refused."""
    path = unquote_plus(body["?"].get("path", ""))
    if not path:
        return invalid("must specify a path")
    if name not in server.overlay_names():
        server.site_overlays[name] = {}
        return failed(f"unable to add overlay file {name}: {path}: failed to clone distribution overlay '' to site")
    files = server.site_overlays.setdefault(name, dict(_OF_DISTRIBUTION))
    if headers.get("If-None-Match") == "*" and path in files:
        return failed(f"unable to add overlay file {name}: {path}: file {path} already exists in overlay {name}")
    files[path] = str(body.get("content", ""))
    return told(_overlay(server, name))


ROUTES: Any = {
    ("GET", "profiles", "", False): profiles,
    ("GET", "profiles", "", True): profile,
    ("PUT", "profiles", "", True): put_profile,
    ("PATCH", "profiles", "", True): patch_profile,
    ("DELETE", "profiles", "", True): delete_profile,
    ("GET", "overlays", "", False): overlays,
    ("GET", "overlays", "", True): overlay,
    ("PUT", "overlays", "", True): put_overlay,
    ("GET", "overlays", "file", True): overlay_file,
    ("PUT", "overlays", "file", True): put_overlay_file,
}
