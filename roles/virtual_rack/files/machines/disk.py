# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's disk: the upper folder of an overlay over this computer's own root.

What of the computer's root must not be seen from a node is hidden by opaque folders in the upper layer: they
cannot be unmounted from inside, as a mount on top could be.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
import time
import zlib
from pathlib import Path

from rackconf import Node, Rack, read_json, write_json

# What a node keeps of this computer's root; everything else at these places is hidden.
KEEP = {
    "": {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "dev", "proc", "sys", "run", "tmp"},
    "var": {"lib", "run", "lock"},
    "var/lib": {"dpkg"},
}
HIDE = (
    "etc/munge",
    "etc/slurm",
    "etc/ssl/private",
    "etc/gpufleet",
    "etc/shadow",
    "etc/shadow-",
    "etc/gshadow",
    "etc/gshadow-",
    "etc/krb5.keytab",
    "usr/local/src",
)
EMPTY_FOLDERS = {
    "root": 0o700,
    "home": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "srv": 0o755,
    "var/tmp": 0o1777,
    "var/log": 0o755,
    "var/spool": 0o755,
    "var/cache": 0o755,
    "etc/ssh": 0o755,
}


class NotAnImage(Exception):
    """What was fetched cannot be unpacked into a root."""


def bootable(node: Node) -> bool:
    """Whether an operating system was ever put on this disk, wholly."""
    return (node.disk / "imaged.json").exists()


def keep_old(node: Node) -> bool:
    """Keep what is on the disk; an empty one gets the bare system of the factory."""
    if not bootable(node):
        _empty(node)
        write_json(node.disk / "imaged.json", {"url": "factory", "sha256": "", "time": time.time()})
    return True


def install(node: Node, content: bytes, url: str, *more: bytes) -> None:
    """Empty the overlay and unpack an image into it, and what was loaded after that over it, as a kernel does."""
    if any(part[:2] != b"\x1f\x8b" for part in (content, *more)):
        raise NotAnImage("no root file system found in it")
    try:
        # All of it, before anything of the disk is touched.
        plain = [io.BytesIO(gzip.decompress(part)) for part in (content, *more)]
        with contextlib.ExitStack() as stack:
            archives = [stack.enter_context(tarfile.open(fileobj=part)) for part in plain]
            for archive in archives:
                _check(archive)
            _empty(node)
            for archive in archives:
                _unpack(archive, node.disk / "upper")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise NotAnImage(str(error)) from error
    digest = hashlib.sha256(content).hexdigest()
    write_json(node.disk / "imaged.json", {"url": url, "sha256": digest, "time": time.time()})


def _empty(node: Node) -> None:
    # The mark goes first: a machine that loses power in between has no bootable disk.
    (node.disk / "imaged.json").unlink(missing_ok=True)
    for name in ("upper", "work"):
        shutil.rmtree(node.disk / name, ignore_errors=True)
        (node.disk / name).mkdir(parents=True)
    (node.disk / "upper").chmod(0o755)


def _check(archive: tarfile.TarFile) -> None:
    members = archive.getmembers()
    if not members:
        raise NotAnImage("it is empty")
    for member in members:
        if member.name.startswith("/") or ".." in Path(member.name).parts:
            raise NotAnImage(f"a member would leave the root: {member.name}")
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise NotAnImage(f"a member is neither file, folder nor link: {member.name}")


def _unpack(archive: tarfile.TarFile, upper: Path) -> None:
    for member in archive:
        parts = Path(member.name).parts
        for depth in range(1, len(parts)):
            merge_folder(upper, "/".join(parts[:depth]))
        if member.isdir():
            merge_folder(upper, "/".join(parts))
            upper.joinpath(*parts).chmod(member.mode & 0o7777)
        else:
            archive.extract(member, upper, numeric_owner=True)


def merge_folder(upper: Path, relative: str) -> None:
    """Make a folder of the upper layer, with the mode of the one below where there is one."""
    if relative in ("", "."):
        return
    target = upper / relative
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise NotAnImage(f"{relative} is no folder")
    if target.exists():
        return
    below = Path("/") / relative
    if below.is_symlink():
        raise NotAnImage(f"{relative} is a link in the root below")
    target.mkdir(parents=True)
    if below.is_dir():
        target.chmod(stat.S_IMODE(below.stat().st_mode))


def hide(rack: Rack, node: Node) -> None:
    """Hide from the node everything of this computer that is not its operating system; before each boot."""
    upper = node.disk / "upper"
    for relative, mode in EMPTY_FOLDERS.items():
        folder = upper / relative
        _parents(upper, relative)
        folder.mkdir(exist_ok=True)
        _opaque(folder)
        folder.chmod(mode)
    for place, keep in KEEP.items():
        for name in sorted(set(os.listdir(Path("/") / place)) - keep):
            _hide_one(upper, f"{place}/{name}".strip("/"))
    for relative in HIDE:
        _hide_one(upper, relative)
    for path in (rack.checkout, rack.dir):
        _hide_one(upper, str(path.resolve()).strip("/"))


def _hide_one(upper: Path, relative: str) -> None:
    """Cover one path of the lower root, and keep what the image or the node itself put there."""
    target = upper / relative
    if not os.path.lexists(Path("/") / relative) or _covered(upper, relative):
        return
    if not os.path.lexists(target):
        _parents(upper, relative)
        os.mknod(target, stat.S_IFCHR, os.makedev(0, 0))  # overlayfs's mark for "not here"
    elif target.is_dir() and not target.is_symlink():
        _opaque(target)


def _parents(upper: Path, relative: str) -> None:
    parts = Path(relative).parts
    for depth in range(1, len(parts)):
        folder = upper.joinpath(*parts[:depth])
        if not folder.exists():
            folder.mkdir()
            folder.chmod(stat.S_IMODE((Path("/").joinpath(*parts[:depth])).stat().st_mode))


def _covered(upper: Path, relative: str) -> bool:
    """Whether a folder above is hidden or opaque already."""
    parts = Path(relative).parts
    for depth in range(1, len(parts)):
        folder = upper.joinpath(*parts[:depth])
        try:
            if (os.path.lexists(folder) and not folder.is_dir()) or os.getxattr(
                folder, "trusted.overlay.opaque"
            ) == b"y":
                return True
        except OSError:
            continue
    return False


def _opaque(folder: Path) -> None:
    os.setxattr(folder, "trusted.overlay.opaque", b"y")


def image_record(node: Node) -> dict[str, str]:
    """Return what is on the disk (for status only)."""
    record: dict[str, str] = read_json(node.disk / "imaged.json", {})
    return record
