# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server is started with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .versions import NEWEST, TOLD


@dataclass(frozen=True)
class User:
    name: str
    key: str
    admin: bool = True


@dataclass
class Config:
    """See README.md for the JSON file."""

    users: tuple[User, ...]
    host: str = "127.0.0.1"
    port: int = 0
    state_dir: Optional[Path] = None
    boot_root: Optional[Path] = None
    boot_url: str = ""
    #: name of a custom image -> {"url", "kernel_url", "sha256", "size"}
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: region controllers, among which a file's progress is counted, and do they copy it from one another?
    regions: int = 1
    syncs: bool = True
    #: {"ca_path", "username", "password_file"}; without it no BMC is spoken to, and every machine obeys
    bmc: dict[str, str] = field(default_factory=dict)
    #: what commissioning would read on the machine itself: a list of {"mac", "serial", "uuid", ...}
    nodes: list[dict[str, Any]] = field(default_factory=list)
    #: seconds that a background job takes at least: "commission", "test", "deploy", "release", "erase"
    delays: dict[str, float] = field(default_factory=dict)
    #: architectures of the imported Ubuntu images; empty: nothing imported yet
    architectures: tuple[str, ...] = ("amd64", "arm64")
    #: host names whose BMC does not answer, and those whose BMC no rack controller reaches
    dead: set[str] = field(default_factory=set)
    no_rack: set[str] = field(default_factory=set)
    commissioning_scripts: tuple[str, ...] = ()
    testing_scripts: tuple[str, ...] = (
        "internet-connectivity",
        "memtester",
        "ntp",
        "smartctl-validate",
        "stress-ng-cpu-long",
    )
    #: tags that no machine needs to have
    tags: tuple[str, ...] = ()
    #: tags whose machines MAAS works out itself, by their definitions
    definitions: dict[str, str] = field(default_factory=dict)
    #: the oldest kernel of what is entered without one
    default_min_hwe_kernel: str = ""
    #: which release of MAAS it is
    version: str = NEWEST
    #: its DNS domains, the default one first
    domains: tuple[str, ...] = ("maas",)

    @classmethod
    def load(cls, path: Path) -> Config:
        told = json.loads(path.read_text(encoding="utf-8"))
        host, _colon, port = str(told.get("listen", "127.0.0.1:5240")).rpartition(":")
        key = told.get("api_key") or Path(told["api_key_file"]).read_text(encoding="ascii").strip()
        users = [User("admin", key)]
        users += [User(one["name"], one["api_key"], bool(one.get("admin"))) for one in told.get("users", [])]
        return cls(
            users=tuple(users),
            host=host,
            port=int(port),
            state_dir=Path(told["state_dir"]),
            boot_root=Path(told["boot_root"]) if told.get("boot_root") else None,
            boot_url=str(told.get("boot_url", "")),
            images=dict(told.get("images", {})),
            bmc=dict(told.get("bmc", {})),
            nodes=list(told.get("nodes", [])),
            version=TOLD.get(str(told.get("version", "")), str(told.get("version") or NEWEST)),
            delays={key: float(value) for key, value in told.get("delays", {}).items()},
        )
