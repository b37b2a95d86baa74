# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the root that a node's operating system sees, inside its own mount namespace."""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path

import clock
import disk
import kernel
import tools
from rackconf import Node, Rack, board_of

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_GPU_FILES = [f"nvidia{number}" for number in range(8)] + ["nvidiactl"]
TOOLS = "usr/lib/nvidia-tools"
_SSHD_CONFIG = """Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PermitUserEnvironment yes
MaxStartups 200
MaxSessions 200
Subsystem sftp /usr/lib/openssh/sftp-server
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""


def write_hardware(node: Node, arguments: str) -> str:
    """Write what this boot's kernel and firmware tell; return the boot id."""
    boot_id = str(uuid.uuid4())
    hardware = node.hardware
    shutil.rmtree(hardware, ignore_errors=True)
    (hardware / "dmi").mkdir(parents=True)
    (hardware / "cmdline").write_text(arguments + "\n", encoding="utf-8")
    (hardware / "boot_id").write_text(boot_id + "\n", encoding="utf-8")
    (hardware / "kmsg").write_text("", encoding="utf-8")
    for name, value in dmi(node).items():
        (hardware / "dmi" / name).write_text(value + "\n", encoding="utf-8")
    clock.write(node)
    return boot_id


def dmi(node: Node) -> dict[str, str]:
    """What DMI tells, and the BMC too."""
    serial, system_uuid = board_of(node)
    return {
        "sys_vendor": "GPUFleet Virtual",
        "product_name": "Virtual HGX H100",
        "product_serial": serial,
        "product_uuid": system_uuid,
        "product_sku": node.sku,
        "board_vendor": "GPUFleet Virtual",
        "board_name": "GFR-1",
        "board_serial": f"{serial}-B",
        "chassis_serial": serial,
        "bios_vendor": "GPUFleet Virtual",
        "bios_version": "1.0.0",
    }


def prepare_disk(rack: Rack, node: Node) -> None:
    """Hide this computer's secrets and write the node's own identity, before the overlay is mounted."""
    disk.hide(rack, node)
    etc = node.disk / "upper" / "etc"
    etc.mkdir(exist_ok=True)
    files = {
        "hostname": f"{node.name}\n",
        "hosts": f"127.0.0.1 localhost\n{rack.gateway} {os.uname().nodename} rack\n"
        + "".join(f"{other.ip} {other.name}\n" for other in rack.nodes),
        "machine-id": uuid.uuid5(uuid.UUID(node.uuid), "machine-id").hex + "\n",
        "resolv.conf": "",
    }
    for name, text in files.items():
        _file(etc / name, text, 0o644)
    _file(etc / "shadow", "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n", 0o600)
    _ssh(rack, node)
    _tools(node)


def cloud_init(node: Node, arguments: str, fetch: Callable[[str], bytes]) -> None:
    """As in the image's cloud-init: keep the user data that this boot's command line points to.

    A boot that points to none leaves what an earlier one has kept, as on any disk.
    """
    urls = [word.partition("=")[2] for word in arguments.split() if word.startswith("cloud-config-url=")]
    folder = node.disk / "upper/var/lib/cloud/instance"
    for url in urls:
        folder.mkdir(parents=True, exist_ok=True)
        _file(folder / "user-data.txt", fetch(url).decode("utf-8", "replace"), 0o600)


def _file(path: Path, text: str, mode: int) -> None:
    if os.path.lexists(path):
        path.unlink()
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _ssh(rack: Rack, node: Node) -> None:
    folder = node.disk / "upper/etc/ssh"
    folder.mkdir(exist_ok=True)
    _file(folder / "sshd_config", _SSHD_CONFIG, 0o644)
    for name, mode in (("ssh_host_ed25519_key", 0o600), ("ssh_host_ed25519_key.pub", 0o644)):
        _file(folder / name, (node.home / "ssh" / name).read_text(encoding="utf-8"), mode)
    keys = node.disk / "upper/root/.ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    _file(keys / "authorized_keys", Path(rack.paths["node_key_pub"]).read_text(encoding="utf-8"), 0o600)


def _tools(node: Node) -> None:
    """Link the vendor tools into /usr/bin; a tool that is gone leaves a link to nowhere."""
    upper = node.disk / "upper"
    for folder in ("usr/bin", "usr/sbin", TOOLS):
        disk.merge_folder(upper, folder)
    for name in tools.PROGRAMS:
        link = upper / ("usr/sbin" if name == "reboot" else "usr/bin") / name
        if os.path.lexists(link):
            link.unlink()
        link.symlink_to(f"/{TOOLS}/bin/{name}")


def mount_all(rack: Rack, node: Node) -> Path:
    """Mount the overlay and everything on it; call inside the new namespaces."""
    root = node.home / "root"
    root.mkdir(exist_ok=True)
    layers = f"lowerdir=/,upperdir={node.disk}/upper,workdir={node.disk}/work"
    kernel.mount("overlay", root, "overlay", data=layers)
    for place in ("usr", "var"):
        if os.path.ismount(f"/{place}"):  # an own file system is not part of the lower layer
            kernel.bind(f"/{place}", root / place, read_only=True)
    for name in ("proc", "sys", "dev", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
    kernel.mount("proc", root / "proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    _mount_sys(node, root)
    _mount_dev(node, root)
    kernel.mount("tmpfs", root / "run", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=64m")
    kernel.mount("tmpfs", root / "tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777,size=512m")
    (root / "run/sshd").mkdir(mode=0o755)
    (root / "run/lock").mkdir(mode=0o1777)
    kernel.bind(node.hardware / "cmdline", root / "proc/cmdline", read_only=True)
    kernel.bind(node.hardware / "boot_id", root / "proc/sys/kernel/random/boot_id", read_only=True)
    for name in ("kcore", "kmsg"):
        if (root / "proc" / name).exists():
            kernel.bind("/dev/null", root / "proc" / name)
    kernel.bind(node.tools, root / TOOLS, read_only=True)
    kernel.bind(node.fault_file, root / TOOLS / "state.json", read_only=True)
    (root / "root/.ssh/environment").touch(mode=0o600)
    kernel.bind(node.hardware / clock.SESSIONS, root / "root/.ssh/environment", read_only=True)
    _mount_slurm(rack, root)
    return root


def _mount_sys(node: Node, root: Path) -> None:
    """A sysfs of the node's own network, with this machine's DMI under /sys/class/dmi/id.

    The class folder is rebuilt on a tmpfs, since sysfs lets nobody add a folder and not every computer has DMI.
    """
    system = root / "sys"
    kernel.mount("sysfs", system, "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    kernel.mount("tmpfs", system / "fs/cgroup", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=64k")
    classes = [name for name in os.listdir(system / "class") if name != "dmi"]
    links = {name: _class_links(system, name) for name in classes}
    kernel.mount("tmpfs", system / "class", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=4m")
    for name in classes:
        folder = system / "class" / name
        folder.mkdir()
        for link, target in links[name].items():
            (folder / link).symlink_to(target)
    (system / "class/dmi/id").mkdir(parents=True)
    kernel.bind(node.hardware / "dmi", system / "class/dmi/id", read_only=True)
    real = system / "devices/virtual/dmi/id"
    if real.is_dir():
        kernel.bind(node.hardware / "dmi", real, read_only=True)


def _class_links(system: Path, name: str) -> dict[str, str]:
    folder = system / "class" / name
    return {entry.name: os.readlink(entry) for entry in os.scandir(folder) if entry.is_symlink()}


def _mount_dev(node: Node, root: Path) -> None:
    dev = root / "dev"
    kernel.mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID, "mode=755,size=64k")
    for name, (major, minor) in _DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    for name in ("pts", "shm", "mqueue"):
        (dev / name).mkdir()
    kernel.mount(
        "devpts", dev / "pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    kernel.mount("tmpfs", dev / "shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777,size=64m")
    for name in _GPU_FILES:
        (dev / name).touch(mode=0o666)
    (dev / "kmsg").touch()
    kernel.bind(node.hardware / "kmsg", dev / "kmsg")


def _mount_slurm(rack: Rack, root: Path) -> None:
    """Bind the scheduler's configuration and munge's socket, where this rack has a scheduler."""
    conf = rack.paths.get("slurm_conf", "")
    if conf and Path(conf).exists():
        (root / "etc/slurm").mkdir(parents=True, exist_ok=True)
        for source in (Path(conf), *(Path(conf).with_name(name) for name in ("gres.conf", "cgroup.conf"))):
            if source.exists():
                target = root / "etc/slurm" / source.name
                target.touch()
                kernel.bind(source, target, read_only=True)
    sockets = rack.paths.get("munge_socket_dir", "")
    if sockets and Path(sockets).is_dir():
        target = root / sockets.strip("/")
        target.mkdir(parents=True, exist_ok=True)
        kernel.bind(sockets, target, read_only=True)


def slurm_folders(conf: Path, node_name: str) -> list[Path]:
    """Return the folders that slurmd expects to exist, as its configuration names them."""
    folders = []
    for line in conf.read_text(encoding="utf-8").splitlines():
        match = re.match(r"\s*(SlurmdSpoolDir|SlurmdLogFile|SlurmdPidFile)\s*=\s*(\S+)", line, re.IGNORECASE)
        if match:
            path = Path(match.group(2).replace("%n", node_name).replace("%h", node_name))
            folders.append(path if match.group(1).lower() == "slurmdspooldir" else path.parent)
    return folders
