# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real OpenPGP keys of every kind, a golden image signed with them, and a web server that counts."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.trust.block_devices import BlockDevices
from contract.trust.trust_site import NODE, Site, passport
from suite import programs

MANIFEST = {
    "schema": 1,
    "name": "hpc",
    "version": "1.4",
    "kernel": os.uname().release,
    "driver": "590.48.01",
    "cuda": "13.1",
    "fabric_manager": "590.48.01",
    "built": "2026-01-01T00:00:00Z",
}


class Keys:
    """A GnuPG home of the tests' own, with keys by name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.fingerprints: dict[str, str] = {}

    def gpg(self, *arguments: str, at: str = "", data: bytes = b"") -> bytes:
        argv = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]
        argv += ["--passphrase", "", "--yes", "--trust-model", "always"]
        argv += ["--faked-system-time", f"{at}!"] if at else []
        done = subprocess.run([*argv, *arguments], input=data, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def make(self, name: str, *, at: str = "", expires: str = "never", usage: str = "sign") -> None:
        self.gpg("--quick-gen-key", f"{name} <{name}@example.com>", "ed25519", usage, expires, at=at)
        listing = self.gpg("--list-keys", "--with-colons", f"{name}@example.com").decode()
        lines = [line.split(":") for line in listing.splitlines()]
        self.fingerprints[name] = next(line[9] for line in lines if line[0] == "fpr")

    def ring(self, *names: str, armor: bool = False) -> bytes:
        return self.gpg("--export", *(["--armor"] if armor else []), *(self.fingerprints[name] for name in names))

    def sign(self, name: str, data: bytes, *options: str, at: str = "") -> bytes:
        user = self.fingerprints[name]
        return self.gpg("--local-user", user, *options, "--armor", "--detach-sign", at=at, data=data)

    def revoke(self, name: str) -> None:
        path = self.home / "openpgp-revocs.d" / f"{self.fingerprints[name]}.rev"
        # GnuPG puts a colon before the block, so that nobody imports it by mistake.
        self.gpg("--import", data=path.read_text().replace(":-----BEGIN", "-----BEGIN").encode())


@pytest.fixture(scope="session")
def keys() -> Iterator[Keys]:
    if not shutil.which("gpg"):
        pytest.skip("no gpg here (Debian: gnupg)")
    # The agent's socket lies in the home, and its path may have 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="gpufleet-keys-", dir="/tmp"))
    made = Keys(home)
    try:
        for name in ("images", "stranger", "revoked"):
            made.make(name)
        made.make("expired", at="20200101T000000", expires="30d")
        made.make("split", usage="cert")
        made.gpg("--quick-add-key", made.fingerprints["split"], "ed25519", "sign", "never")
        yield made
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


class Image:
    """A golden image in a folder, as a site publishes it; every part can be changed before it is looked at."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.folder = folder
        self.keys = keys
        self.keyring = folder / "keyring.gpg"
        self.keyring.write_bytes(keys.ring("images"))
        (folder / "hpc-1.4.tar.gz").write_bytes(b"artifact" * 40000)
        (folder / "hpc-1.4.manifest.json").write_text(json.dumps(MANIFEST))
        (folder / "vmlinuz").write_bytes(b"kernel" * 4000)
        self.publish()

    def publish(self, sums: bytes | None = None, signer: str = "images") -> None:
        names = ("hpc-1.4.manifest.json", "hpc-1.4.tar.gz", "vmlinuz")
        digests = {name: hashlib.sha256((self.folder / name).read_bytes()).hexdigest() for name in names}
        content = "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode() if sums is None else sums
        (self.folder / "SHA256SUMS").write_bytes(content)
        (self.folder / "SHA256SUMS.asc").write_bytes(self.keys.sign(signer, content))

    @property
    def artifact(self) -> Path:
        return self.folder / "hpc-1.4.tar.gz"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.artifact.read_bytes()).hexdigest()

    def declared(self, base: str = "", **other: Any) -> dict[str, Any]:
        base = base or f"file://{self.folder}"
        image = {
            "name": "hpc",
            "version": "1.4",
            "url": f"{base}/hpc-1.4.tar.gz",
            "checksums_url": f"{base}/SHA256SUMS",
            "signature_url": f"{base}/SHA256SUMS.asc",
            "manifest_url": f"{base}/hpc-1.4.manifest.json",
            "keyring": str(self.keyring),
            "size": self.artifact.stat().st_size,
            "sha256": self.sha256,
        }
        return {key: value for key, value in {**image, **other}.items() if value is not None}


@pytest.fixture
def image(tmp_path: Path, keys: Keys) -> Image:
    folder = tmp_path / "images"
    folder.mkdir()
    return Image(folder, keys)


class Web:
    """A web server over a folder: what was asked for, and how many bytes of it were sent."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.short = 0
        self.status = 200
        #: So many answers are those of a gateway whose server is not up yet, or of one that has no time.
        self.away, self.away_status = 0, 503
        #: Does it say when a file was changed, and when that was; how long it thinks before it answers.
        self.tells, self.changed, self.slow = True, "", 0.0
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: Any, **more: Any) -> None:
                super().__init__(*args, directory=str(folder), **more)

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                time.sleep(outer.slow)
                if outer.away:
                    outer.away -= 1
                    self.send_error(outer.away_status)
                else:
                    super().do_GET()

            def send_header(self, keyword: str, value: str) -> None:
                if keyword != "Last-Modified":
                    super().send_header(keyword, value)
                elif outer.tells:
                    super().send_header(keyword, outer.changed or value)

            def send_response(self, code: int, message: Any = None) -> None:
                super().send_response(outer.status if code == 200 else code, message)

            def copyfile(self, source: Any, outputfile: Any) -> None:
                content = source.read()
                outputfile.write(content[: len(content) - outer.short] if outer.short else content)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def over_tls(self, context: ssl.SSLContext) -> None:
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web(image: Image) -> Iterator[Web]:
    server = Web(image.folder)
    yield server
    server.close()


def tool(path: Path, text: str) -> str:
    """A program that prints a text and ends well, or whatever its shell text does."""
    return programs.put(path, f"#!/bin/sh\n{text}\n")


class Machine:
    """What a node shows of itself, in a folder: the options that lead image_verify there."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self.folder = folder
        (folder / "dmi").mkdir(parents=True)
        self.serial = f"GF000{number}"
        self.uuid = f"5ac00000-0000-4000-8000-00000000000{number}"
        self.gpus = [f"GPU-{number}000000{gpu}-0000-4000-8000-000000000000" for gpu in range(8)]
        (folder / "dmi/product_serial").write_text(self.serial + "\n")
        (folder / "dmi/product_uuid").write_text(self.uuid.upper() + "\n")
        (folder / "boot_id").write_text("boot-2\n")
        (folder / "uptime").write_text("60.00 400.00\n")
        (folder / "manifest.json").write_text(json.dumps(MANIFEST))
        self.disks = BlockDevices(folder)
        self.nvidia_smi()
        self.fabric_manager("Fabric Manager version is : 590.48.01")

    def nvidia_smi(self, driver: str = "590.48.01", cuda: str = "13.1") -> None:
        head = f"| NVIDIA-SMI {driver}    Driver Version: {driver}    CUDA Version: {cuda}     |"
        listed = "\\n".join(self.gpus)
        tool(
            self.folder / "nvidia-smi",
            f'case "$*" in *driver_version*) for g in 1 2 3; do echo {driver}; done;;'
            f' *uuid*) printf "{listed}\\n";; *) echo "{head}";; esac',
        )

    def fabric_manager(self, text: str) -> None:
        tool(self.folder / "nv-fabricmanager", f'echo "{text}"')

    def options(self) -> dict[str, Any]:
        return {
            "manifest_path": str(self.folder / "manifest.json"),
            "driver_version_path": str(self.folder / "driver_version"),
            "nvidia_smi": str(self.folder / "nvidia-smi"),
            "fabric_manager": str(self.folder / "nv-fabricmanager"),
            "boot_id_path": str(self.folder / "boot_id"),
            "uptime_path": str(self.folder / "uptime"),
            "dmi_path": str(self.folder / "dmi"),
            "cmdline_path": str(self.folder / "cmdline"),
            "config_drive_path": str(self.folder / "config-2"),
            "mountinfo_path": str(self.disks.mountinfo),
            "sysfs_path": str(self.disks.sysfs),
            "user_data_path": str(self.folder / "user-data.txt"),
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "node")


@pytest.fixture
def site(tmp_path: Path, image: Any, machine: Any) -> Iterator[Site]:
    second = type(machine)(tmp_path / "node2", 2)
    folder = tmp_path / "site"
    folder.mkdir()
    # ansible-core keeps a socket there, whose path may have 107 bytes; pytest's own folders are longer than that.
    temporary = Path(tempfile.mkdtemp(prefix="gf-", dir="/tmp"))
    yield Site(folder, temporary, image, {"gpu001": machine, "gpu002": second})
    shutil.rmtree(temporary, ignore_errors=True)


@pytest.fixture
def admitted(site: Site) -> Site:
    _node, _gates, issued = site.play(NODE, site.looks("dcgm_gate", "kernel_log_gate"), passport("issued"))
    assert issued["result"].get("valid"), issued["result"]
    return site
