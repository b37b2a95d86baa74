# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ledger lies that nobody named, and where none may lie. PRIVATE to the collection.

Two runs with two ledgers know nothing of each other: both write to one BMC. So a machine has one place, whoever runs
there, and what is thrown away with its container is no place at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import check_place

#: The folder of the machine's ledger.
MACHINE_FOLDER = "/var/lib/gpufleet"
_FILE = "ledger.sqlite"
_VARIABLE = "GPUFLEET_LEDGER_URL"
#: Whoever sets it tries something out, and wants a file that may go with its container.
MAY_BE_LOST = "GPUFLEET_LEDGER_MAY_BE_LOST"
#: What container engines leave in each container: a file, or a variable of its processes.
_MARKS = ("/.dockerenv", "/run/.containerenv")
_MARKING = ("KUBERNETES_SERVICE_HOST",)
#: File systems that end with their container, or with the machine's power.
_THROWN_AWAY = ("overlay", "aufs", "fuse.fuse-overlayfs", "tmpfs", "ramfs")
#: A volume that Kubernetes makes with a pod, and removes with it.
_EMPTY_DIR = "kubernetes.io~empty-dir"
#: A volume without a name, which container engines make with a container and remove with it.
_ANONYMOUS = re.compile(r"/volumes/[0-9a-f]{64}/_data(/|$)")
#: File systems of several machines. What runs with one file tell each other goes through memory of one machine alone.
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ceph", "lustre", "gpfs", "gfs2", "ocfs2")
    + ("beegfs", "glusterfs", "afs", "orangefs", "pvfs2", "panfs", "wekafs")
)
#: What a program serves may come from anywhere, but for what lies on folders of this machine (NTFS is ``fuseblk``).
_SERVED = "fuse."
_SERVED_HERE = frozenset({"fuse.fuse-overlayfs", "fuse.bindfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs"})
_MOUNTS = "/proc/self/mountinfo"
_DO = (
    "set gpufleet_ledger_url in the inventory or as an extra variable, or GPUFLEET_LEDGER_URL in the environment, for"
    " instance to postgresql+psycopg://gpufleet@db.example.com/gpufleet, which all jobs share"
)
_NO_FLEET = f"where no fleet stands behind it, set {MAY_BE_LOST}=yes in the environment"


class Mount(NamedTuple):
    """``root`` is the folder of its file system that is mounted at ``point``."""

    root: str
    point: str
    kind: str
    source: str


#: Compiled before the workers are forked, each of which would do that anew for its one task.
_OCTAL, _ABSOLUTE = re.compile(r"\\([0-7]{3})"), re.compile(r"sqlite(?:\+\w+)?:///(/[^?]+)")


def mounts_in(text: str) -> list[Mount]:
    """Out of the text of ``/proc/self/mountinfo``."""
    found = []
    for line in text.splitlines():
        about, _dash, of = (line.split(" - ", 1)[0].split(), "", line.split(" - ", 1)[-1].split())
        if len(about) > 4 and len(of) > 1:
            found.append(Mount(_plain(about[3]), _plain(about[4]), of[0], _plain(of[1])))
    return found


def _plain(word: str) -> str:
    """The kernel writes a blank as ``\\040``."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), word)


def _mounts() -> list[Mount]:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            return mounts_in(file.read())
    except OSError:
        return []


def mount_of(path: str, mounts: Iterable[Mount]) -> Optional[Mount]:
    """The mount that a file at this place lies on, whether or not it is there; of two at one point the later one."""
    found = None
    for one in mounts:
        inside = path == one.point or path.startswith(one.point.rstrip("/") + "/")
        if inside and (found is None or len(one.point) >= len(found.point)):
            found = one
    return found


def in_container(mounts: Iterable[Mount]) -> bool:
    """Has some engine made this system, and does it throw its files away?

    A machine whose disk was made of a container's image still has that image's marks; its root is a whole disk.
    """
    if not (any(map(os.path.exists, _MARKS)) or any(map(os.environ.get, _MARKING))):
        return False
    root = mount_of("/", mounts)
    return root is None or root.kind in _THROWN_AWAY or root.root != "/" or not root.source.startswith("/dev/")


def _survives(path: str, mounts: Iterable[Mount], *, contained: bool) -> bool:
    mount = mount_of(path, mounts)
    if mount is None or mount.kind in _THROWN_AWAY or _EMPTY_DIR in mount.root or _ANONYMOUS.search(mount.root):
        return False
    of_the_job = any(path.startswith(os.path.realpath(home) + "/") for home in job.homes())
    return not of_the_job and not (contained and mount.point == "/")


def default_url() -> str:
    """The ledger of a run that named none: what its environment names, else the machine's own, whoever runs."""
    return os.environ.get(_VARIABLE) or f"sqlite:///{MACHINE_FOLDER}/{_FILE}"


def default_is_there() -> bool:
    """Has somebody used it, or named it?"""
    return bool(os.environ.get(_VARIABLE)) or os.path.isfile(f"{MACHINE_FOLDER}/{_FILE}")


def check(url: str) -> None:
    """Before a ledger is opened, also to read: what lies in no place for it would be taken for an empty one.

    :param url: what the run names, empty where it leaves it to the environment or the machine.
    :raises ConfigError: where its file would be gone with its container, where each task would have one of its own, or
        where this user is kept from the machine's.
    """
    named = url or os.environ.get(_VARIABLE) or ""
    if not named:
        _check_kept("")
        _check_machine()
    elif named.startswith("sqlite") and "///file:" not in named:
        _check_kept(os.path.realpath(_absolute(named)))


def _absolute(url: str) -> str:
    found = _ABSOLUTE.match(url)
    if not found:
        raise ConfigError(
            "the ledger's URL names no file that is the same one for each run",
            wanted="an absolute path, after four slashes",
            seen=url,
            do="set gpufleet_ledger_url, for instance to sqlite:////var/lib/gpufleet/ledger.sqlite",
        )
    return found.group(1)


def _check_kept(path: str) -> None:
    """:param path: empty where nobody named one."""
    mounts = _mounts()
    contained, controlled = in_container(mounts), job.is_one()
    if os.environ.get(MAY_BE_LOST):
        return
    _check_local(path or os.path.realpath(f"{MACHINE_FOLDER}/{_FILE}"), mounts)
    if not (contained or controlled):
        return
    here = "a job of an automation controller" if controlled else "a container"
    if not path:
        raise ConfigError(
            f"no ledger is named, and a file of {here} is gone with it: the next run would know nothing of this one",
            wanted="gpufleet_ledger_url",
            seen="neither gpufleet_ledger_url nor GPUFLEET_LEDGER_URL is set",
            do=f"{_DO}; {_NO_FLEET}",
        )
    if not _survives(path, mounts, contained=contained):
        raise ConfigError(
            f"the ledger's file lies in {here}, and is gone with it: the next run would know nothing of this one",
            address=f"sqlite:///{path}",
            wanted="gpufleet_ledger_url: a database server, or a file in a folder that is mounted from outside",
            seen=f"{os.path.dirname(path)} is not mounted from outside",
            do=f"{_DO}; or mount a folder of the host there; {_NO_FLEET}",
        )


def check_file(path: str, what: str) -> None:
    """Before a file is made for people. In a job of an automation controller nobody else ever sees its container; in
    one of their own people are themselves.

    :param what: for the message, what it is.
    :raises ConfigError: where it would be gone with its job, or would take the place of what is no file.
    """
    check_place(path, what)
    if not job.is_one() or os.environ.get(MAY_BE_LOST):
        return
    mounts, whole = _mounts(), os.path.realpath(os.path.expanduser(path))
    if not _survives(whole, mounts, contained=in_container(mounts)):
        raise ConfigError(
            f"{what} would lie in a job of an automation controller, and be gone with it",
            wanted="a file in a folder that is mounted into jobs from outside",
            seen=f"{os.path.dirname(whole)} is not mounted from outside",
            do="name a file in such a folder. With the role awx: have awx_files of the controller mounted into jobs, by"
            " its setting 'Paths to expose to isolated jobs' or the pod of its container group",
        )


def check_in_project(path: str) -> None:
    """Before a file is read that who launches a job has named. Beside the project its container holds what the job's
    credentials gave it, and what is told of a file's mistakes tells of its content.

    :raises ConfigError: in a job of an automation controller, where it is no file of the project.
    """
    if not job.is_one():
        return
    homes = [f"{home}/project" for home in job.homes()]
    whole = os.path.realpath(os.path.expanduser(path))
    if not any(whole.startswith(os.path.realpath(home) + "/") for home in homes):
        raise ConfigError(
            "a job of an automation controller reads no list of servers but one of its project",
            address=path,
            # What the controller calls the folder of a job is outside of the job's container.
            wanted=f"a file below {next(filter(os.path.isdir, homes), homes[0])}, and no link that leads out of it",
            do="commit the list to the project's repository, update the project, and name the list by its path there",
        )


def _is_shared(kind: str) -> bool:
    return kind in _NETWORK or (kind.startswith(_SERVED) and kind not in _SERVED_HERE)


def _check_local(path: str, mounts: Iterable[Mount]) -> None:
    mount = mount_of(path, mounts)
    if mount is not None and _is_shared(mount.kind):
        raise ConfigError(
            "the ledger's file lies on a file system of several machines, where SQLite loses what two of them write",
            address=f"sqlite:///{path}",
            wanted="gpufleet_ledger_url: a file on a disk of this machine, or a database server",
            seen=f"{mount.point} is {mount.kind}, from {mount.source}",
            do=f"back it up onto a local disk by a copy while nothing runs, and name that one; or {_DO}; {_NO_FLEET}",
        )


def _check_machine() -> None:
    """The machine's place, and no other one of this user's own: two users would work on one node."""
    file = f"{MACHINE_FOLDER}/{_FILE}"
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    earlier = os.path.join(state, "gpufleet", _FILE)
    if os.path.isfile(earlier) and not os.path.isfile(file):
        raise ConfigError(
            "no ledger is named, and this user has one of an earlier release, where no other user finds it",
            address=f"sqlite:///{file}",
            seen=earlier,
            do=f"set gpufleet_ledger_url to sqlite:///{earlier}, or move that file to {file} while nothing runs",
        )
    folder = MACHINE_FOLDER
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            "no ledger is named, and this user may not write that of this machine",
            address=f"sqlite:///{file}",
            wanted=f"{MACHINE_FOLDER}: a folder that user {os.geteuid()} may write",
            seen=f"{folder} belongs to user {os.stat(folder).st_uid}",
            do=f"run as that user, or once: sudo install -d -m 0700 -o {os.geteuid()} {MACHINE_FOLDER}; or set"
            " gpufleet_ledger_url",
        )
