# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Custom images that are announced, and then uploaded in pieces.

What lies under a name is an entry of ``Config.images``; one that is uploaded here has ``held``, the bytes that came.
"""

from __future__ import annotations

import hashlib
from typing import Any

from . import versions
from .answers import Answer, AnswerError
from .config import Config
from .params import Form

#: filetype of the form -> what it is stored as, and the name of the file.
FILETYPES = {
    "tgz": ("root-tgz", "root.tgz"),
    "tbz": ("root-tbz", "root.tbz"),
    "txz": ("root-txz", "root.txz"),
    "ddtgz": ("root-dd", "root-dd"),
    "ddgz": ("root-dd.gz", "root-dd.gz"),
    "ddxz": ("root-dd.xz", "root-dd.xz"),
    "ddbz2": ("root-dd.bz2", "root-dd.bz2"),
    "ddtar": ("root-dd.tar", "root-dd.tar"),
    "ddtbz": ("root-dd.tar.bz2", "root-dd.tar.bz2"),
    "ddtxz": ("root-dd.tar.xz", "root-dd.tar.xz"),
    "ddraw": ("root-dd.raw", "root-dd.raw"),
}
_VERSION = "20261115"


def announce(config: Config, form: Form) -> str:
    """A new version of the image under its name and architecture; what lay there under it is gone. Its key."""
    errors = _wrong(config, form)
    if errors:
        raise AnswerError(Answer.form_error(errors))
    short, kind = form.get("name").rpartition("/")[2], form.get("architecture").partition("/")[0]
    same = [key for key, one in config.images.items() if _short(key) == short]
    key = next((one for one in same if config.images[one].get("architecture", "amd64") == kind), "")
    key = key or (f"custom/{short}" + (f" {kind}" if same else ""))
    number = len(config.images.get(key, {}).get("versions") or ()) + 1
    filetype, filename = FILETYPES[form.get("filetype", "tgz")]
    version = {"sha256": form.get("sha256"), "size": int(form.get("size")), "complete": False, "held": b""}
    version.update(filename=filename, filetype=filetype)
    config.images[key] = {
        "architecture": kind,
        "base_image": form.get("base_image") or "ubuntu/noble",
        "versions": {f"{_VERSION}.{number}": version},
    }
    return key


def _short(key: str) -> str:
    return key.rpartition("/")[2].partition(" ")[0]


def _wrong(config: Config, form: Form) -> dict[str, list[str]]:
    needed = ("name", "architecture", "sha256", "size")
    errors = {key: ["This field is required."] for key in needed if not form.get(key)}
    choices = [f"{kind}/generic" for kind in config.architectures]
    if form.get("architecture") and form.get("architecture") not in choices:
        told = ", ".join(f"'{one}'" for one in choices)
        text = f"'{form.get('architecture')}' is not a valid architecture.  It should be one of: {told}."
        errors["architecture"] = [text]
    if len(form.get("sha256")) not in (0, 64):
        errors["sha256"] = [f"Ensure this value has at least 64 characters (it has {len(form.get('sha256'))})."]
    if form.get("filetype", "tgz") not in FILETYPES:
        errors["filetype"] = [f"Select a valid choice. {form.get('filetype')} is not one of the available choices."]
    return errors


def upload(config: Config, number: int, data: bytes) -> Answer:
    """A piece, after those that came before it; of the last one the whole file's digest depends."""
    known: dict[str, Any] = list(config.images.values())[number].get("versions") or {}
    file = known[max(known)] if known else {}
    if not data:
        return Answer.text(400, "Missing data.")
    if "held" not in file or len(file["held"]) == file["size"]:
        return Answer.text(400, "Cannot upload to a complete file.")
    held = file["held"] + data
    if len(held) > file["size"]:
        return Answer.text(400, "Too much data received.")
    if len(held) == file["size"] and hashlib.sha256(held).hexdigest() != file["sha256"]:
        return Answer.text(400, "Saved content does not match given SHA256 value.")
    synced = config.syncs or not versions.keeps_files_by_region(config.version)
    file["held"], file["complete"] = held, len(held) == file["size"] and synced
    return Answer.text(200, "OK")


def progress(config: Config, file: dict[str, Any], resource: int, number: int) -> dict[str, Any]:
    """What is told of a file that is not whole on all region controllers."""
    held = len(file.get("held", b""))
    told = {"progress": versions.progress(held, int(file.get("size") or 0), config.regions, config.version)}
    return {**told, "upload_uri": f"/MAAS/api/2.0/boot-resources/{resource}/upload/{number}/"}
