# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that their owner alone may read, and that lie where they were meant to lie. PRIVATE to the collection.

Evidence, passports, answers and locks tell of a site; and who may lay a link where we write, writes with our rights.
Runs on nodes: standard library only.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from contextlib import suppress
from typing import IO

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

MODE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: What would be lost for good where a file takes its place. What a link leads to, whoever may write beside it decides.
_NO_FILE = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def write(path: str, text: str | bytes, mode: int = MODE) -> None:
    """The whole file or none; what stands there and is no file is neither replaced nor followed.

    :param mode: who may read it, where that is not its owner alone.
    :raises OSError: where it cannot be written.
    """
    folder, name = os.path.split(os.path.abspath(path))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _write_in(handle, name, text, mode)
    finally:
        os.close(handle)


def check_place(path: str, what: str) -> None:
    """Before anything is read or asked for a file whose path a person gave; in check mode too.

    :param what: for the message, what it is.
    :raises ConfigError: where something stands there that is no file.
    """
    whole = os.path.abspath(path)
    with suppress(OSError):  # what is wrong with the way there is told by whoever writes
        kind = _no_file(os.lstat(whole))
        if kind:
            leads = f", to {os.readlink(whole)}" if kind == _NO_FILE[stat.S_IFLNK] else ""
            raise ConfigError(
                f"{what} would take the place of {kind}",
                wanted="a file, or nothing yet",
                seen=f"{path}: {kind}{leads}",
                do="name another file; where a link stands there, the one that it leads to",
            )


def write_for_people(path: str, text: str | bytes, what: str, mode: int = MODE) -> None:
    """The same in a folder that is made where it is not there, for whoever may read the file.

    :param what: for the message, what it is.
    :raises ConfigError: where it cannot be written.
    """
    check_place(path, what)
    try:
        _make_folder(os.path.dirname(os.path.abspath(path)), everybodys=bool(mode & stat.S_IROTH))
        write(path, text, mode)
    except OSError as exc:
        raise ConfigError(f"{what} cannot be written: {exc.strerror}", seen=path) from exc


def write_kept_apart(path: str, text: str) -> None:
    """The same in a folder in which nobody else may write, and where no link stands in the file's place.

    :raises ConfigError: where somebody else could lead us elsewhere.
    :raises OSError: where it cannot be written.
    """
    folder, name = os.path.split(os.path.abspath(path))
    whole = os.path.realpath(folder)
    handle = os.open(whole, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_folders(whole, os.fstat(handle))
        _check_place(path, name, handle)
        _write_in(handle, name, text)
    finally:
        os.close(handle)


def copy(source: str, path: str) -> None:
    """A copy that is its owner's alone from its first byte on, whatever the source shows to others.

    :raises OSError: where something lies there already, or it cannot be written.
    """
    with open(source, "rb") as read, os.fdopen(os.open(path, _NEW, MODE), "wb") as written:
        shutil.copyfileobj(read, written)


def open_lock(path: str) -> IO[str]:
    """A file to lock, made where it is not there; its content means nothing."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE), "w", encoding="ascii")


def make_private(path: str, *companions: str) -> None:
    """Make the file, empty, where it is not there; else take from others what they may do with it, if it is ours.

    :param companions: files that are treated alike where they are there.
    """
    with suppress(OSError):  # what is wrong with the place is told by whoever opens the file
        try:
            os.close(os.open(os.path.realpath(path), _NEW, MODE))
        except FileExistsError:
            for name in (path, *companions):
                _close_to_others(name)


def _close_to_others(path: str) -> None:
    with suppress(FileNotFoundError):
        about = os.stat(path)
        if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_mode & 0o077:
            os.chmod(path, stat.S_IMODE(about.st_mode) & ~0o077)


def _write_in(handle: int, name: str, text: str | bytes, mode: int = MODE) -> None:
    draft = f".{name}.{uuid.uuid4().hex}"
    descriptor = os.open(draft, _NEW, MODE, dir_fd=handle)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
            if mode != MODE:
                os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)  # or a machine that goes down next has an empty file in its place
        _demand_file(name, handle)
        os.replace(draft, name, src_dir_fd=handle, dst_dir_fd=handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=handle)
        raise


def _make_folder(folder: str, *, everybodys: bool) -> None:
    """What is everybody's to read is so by whatever umask, in each folder that was not there."""
    if os.path.isdir(folder):
        return
    if everybodys:
        _make_folder(os.path.dirname(folder), everybodys=True)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if everybodys:
        os.chmod(folder, 0o755)


def _demand_file(name: str, handle: int) -> None:
    """:raises FileExistsError: where something else stands there."""
    with suppress(FileNotFoundError):
        kind = _no_file(os.stat(name, dir_fd=handle, follow_symlinks=False))
        if kind:
            raise FileExistsError(errno.EEXIST, f"{kind} stands there, and would be lost", name)


def _no_file(about: os.stat_result) -> str:
    return _NO_FILE.get(stat.S_IFMT(about.st_mode), "")


def _check_folders(folder: str, about: os.stat_result) -> None:
    """Neither in the folder nor on the way to it may another user put something in place of something else."""
    on_the_way = folder
    while True:
        if about.st_uid not in (0, os.geteuid()) or (
            about.st_mode & _OTHERS and not _is_shared(about, on_the_way, folder)
        ):
            raise ConfigError(
                "others may write in the folder of the evidence",
                wanted=f"{folder}: a folder in which user {os.geteuid()} alone may write",
                seen=f"{on_the_way}: {stat.filemode(about.st_mode)}, user {about.st_uid}",
                do="name a file in a folder of your own, for instance one made with mode 0700 below /var/lib",
            )
        above = os.path.dirname(on_the_way)
        if above == on_the_way:
            return
        on_the_way, about = above, os.lstat(above)


def _is_shared(about: os.stat_result, place: str, folder: str) -> bool:
    """A folder on the way may be everybody's where nobody can rename what is another's: /tmp is."""
    return place != folder and bool(about.st_mode & stat.S_ISVTX)


def _check_place(path: str, name: str, handle: int) -> None:
    with suppress(FileNotFoundError):
        about = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
            raise ConfigError(
                "the evidence would be written through a link or into something that is no file",
                seen=f"{path}: {stat.filemode(about.st_mode)}, {about.st_nlink} name(s)",
                do="find out who put it there, and remove it",
            )
