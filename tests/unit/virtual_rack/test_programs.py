# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's small programs: files, packages, images, keys, forgetting."""

from __future__ import annotations

import hashlib
import io
import ipaddress
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from suite import handed_on

CHECKOUT = Path(__file__).resolve().parents[3]
SERVICES = CHECKOUT / "roles" / "virtual_rack" / "files" / "services"
RACK_PYTHON = handed_on.venv("rack") / "bin" / "python"

IMAGE = {"version": "1", "driver": "570.1", "cuda": "12.8", "built": "2026-11-01T00:00:00Z"}
Loader = Callable[[str], ModuleType]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_files_are_written_once(load_program: Loader, tmp_path: Path) -> None:
    apply = load_program("write_files").apply
    secret = str(tmp_path / "d" / "secret")
    wanted = {
        "folders": [{"path": str(tmp_path / "d"), "mode": "0700"}],
        "files": [{"path": secret, "mode": "0600", "content": "x"}],
    }
    assert apply(wanted) == [str(tmp_path / "d"), secret]
    assert mode_of(Path(secret)) == 0o600
    assert mode_of(tmp_path / "d") == 0o700
    assert apply(wanted) == []
    Path(secret).chmod(0o644)
    assert apply(wanted) == [secret]
    assert mode_of(Path(secret)) == 0o600


def test_a_link_is_replaced_and_not_followed(load_program: Loader, tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "file"
    elsewhere.write_text("mine", encoding="utf-8")
    path.symlink_to(elsewhere)
    load_program("write_files").apply({"files": [{"path": str(path), "content": "new"}]})
    assert elsewhere.read_text(encoding="utf-8") == "mine"
    assert not path.is_symlink()


@pytest.mark.parametrize("before", [None, "#!/bin/sh\nexit 0\n"])
def test_policy_is_put_back_whatever_happens(load_program: Loader, tmp_path: Path, before: Any) -> None:
    preflight = load_program("preflight")
    policy = tmp_path / "policy-rc.d"
    if before is not None:
        policy.write_text(before, encoding="utf-8")
        policy.chmod(0o744)
    with pytest.raises(RuntimeError), preflight.daemons_forbidden(policy):
        assert subprocess.run([str(policy)], check=False).returncode == 101
        raise RuntimeError("apt was killed")
    assert policy.exists() == (before is not None)
    if before is not None:
        assert policy.read_text(encoding="utf-8") == before
        assert mode_of(policy) == 0o744


def preflight_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(SERVICES / "preflight.py"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no Debian")
def test_preflight_prints_one_command_for_a_person() -> None:
    done = preflight_run("dpkg", "no-such-package-at-all")
    assert done.returncode == 1
    assert "Debian packages are missing: no-such-package-at-all. Run this command:" in done.stderr
    command = next(line for line in done.stderr.splitlines() if "preflight.py" in line)
    argv = shlex.split(command.removeprefix("sudo "))
    assert argv[-2:] == ["--install", "no-such-package-at-all"]
    # The command is this very program: without --install it says the same again.
    again = preflight_run(*argv[3:])
    assert again.stderr == done.stderr


def test_daemons_are_forbidden_while_apt_runs(
    load_program: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preflight = load_program("preflight")
    policy = tmp_path / "policy-rc.d"
    calls: list[list[str]] = []

    def apt(argv: list[str], **_told: Any) -> subprocess.CompletedProcess[str]:
        assert policy.read_text(encoding="utf-8").endswith("exit 101\n")
        calls.append(argv)
        return subprocess.CompletedProcess(argv, 100 if "install" in argv else 0)

    monkeypatch.setattr(preflight, "POLICY", policy)
    monkeypatch.setattr(preflight.subprocess, "run", apt)
    with pytest.raises(SystemExit, match="munge exits 100"):
        preflight.apt_install(["munge"])
    assert [argv[0] for argv in calls] == ["apt-get", "apt-get"]
    assert not policy.exists()


def test_preflight_names_the_missing_environment(tmp_path: Path) -> None:
    done = preflight_run("--venv", str(tmp_path), "--lock", "rack.lock")
    assert done.returncode == 1
    assert f"{tmp_path}/bin/ironic is not there" in done.stderr
    assert f"{tmp_path}/bin/pip install -r rack.lock" in done.stderr


def test_the_same_image_twice_is_the_same_bytes(load_program: Loader) -> None:
    images = load_program("images")
    manifest = images.manifest(IMAGE, "golden")
    first = images.artifact(images.members(IMAGE, "golden", manifest))
    assert first == images.artifact(images.members(IMAGE, "golden", manifest))
    with tarfile.open(fileobj=io.BytesIO(first), mode="r:gz") as archive:
        names = archive.getnames()
        inside = archive.extractfile("etc/gpufleet/manifest.json")
        assert inside is not None
        told = json.loads(inside.read())
    assert names == sorted(names)
    assert not [name for name in names if name.startswith("/") or ".." in name]
    assert told["schema"] == 1
    assert told["kernel"] == os.uname().release
    assert told["fabric_manager"] == told["driver"] == "570.1"


def test_forgetting_keeps_keys_images_logs_and_the_ledger_aside(load_program: Loader, tmp_path: Path) -> None:
    kept = ["keys/k", "log/l", "secrets/s", "ironic/http/images/i", "inventory/hosts.yml"]
    gone = ["ironic/ironic.sqlite", "ironic/http/uuid/config", "slurm/spool/job_state", "nodes/gpu001/state"]
    for name in [*kept, *gone, "ledger.sqlite", "ledger.sqlite-wal"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    forget = load_program("forget").forget
    assert forget(tmp_path)
    assert [name for name in kept if not (tmp_path / name).exists()] == []
    assert [name for name in gone if (tmp_path / name).exists()] == []
    assert sorted(path.name for path in (tmp_path / "previous").iterdir()) == ["ledger.sqlite", "ledger.sqlite-wal"]
    assert forget(tmp_path) == []


def test_bridge_refuses_a_network_that_somebody_has(load_program: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = load_program("bridge")
    other = {"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.77.0.200", "prefixlen": 16}]}
    calls: list[tuple[str, ...]] = []

    def ip(*arguments: str) -> str:
        calls.append(arguments)
        return json.dumps([other])

    monkeypatch.setattr(bridge, "ip", ip)
    with pytest.raises(bridge.BridgeError, match="gfrack0 cannot have .*: eth0 already has 10.77.0.200/16"):
        bridge.up("gfrack0", ipaddress.IPv4Interface("10.77.0.1/24"))
    assert [call for call in calls if "show" not in call] == []


def run_rack_program(name: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [str(RACK_PYTHON), str(SERVICES / name), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


needs_rack_python = pytest.mark.skipif(
    not RACK_PYTHON.exists() or not shutil.which("gpgv"), reason="needs build/venv/rack and gpgv"
)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """gpg's agent has a socket in its home, and the name of a socket is at most 107 characters long."""
    with tempfile.TemporaryDirectory(prefix="gf") as folder:
        yield Path(folder)


@needs_rack_python
@pytest.mark.slow
def test_keys_and_signed_images(short_path: Path) -> None:
    tmp_path = short_path
    keys = ["--rack", str(tmp_path), "--ironic-user", "admin"]
    keys += ["--bmc-address", "127.77.0.11", "--bmc-address", "127.0.0.1"]
    assert run_rack_program("keys.py", *keys)["changed"]
    assert run_rack_program("keys.py", *keys) == {"changed": False, "made": []}
    for secret in ("secrets/bmc_password", "secrets/ironic.htpasswd", "keys/node_ed25519", "keys/passport_ed25519.pem"):
        assert mode_of(tmp_path / secret) == 0o600, secret
    assert len((tmp_path / "secrets" / "bmc_password").read_text(encoding="ascii")) == 16
    verify = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_ip", "127.77.0.11"]
    certificate = [str(tmp_path / "tls" / "ca.pem"), str(tmp_path / "tls" / "bmc.pem")]
    assert subprocess.run([*verify, "-CAfile", *certificate], check=False).returncode == 0

    folder = tmp_path / "images"
    build = ["--folder", str(folder), "--keys", str(tmp_path / "keys"), "--name", "golden"]
    build += ["--images", json.dumps([IMAGE])]
    first = run_rack_program("images.py", *build)
    assert first["changed"]
    second = run_rack_program("images.py", *build)
    assert second == {"changed": False, "files": [], "images": first["images"]}
    artifact = (folder / "golden-1.tar.gz").read_bytes()
    assert first["images"]["1"] == {"sha256": hashlib.sha256(artifact).hexdigest(), "size": len(artifact)}
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=folder, check=False).returncode == 0
    assert signed_by(tmp_path, "images_signer", "SHA256SUMS.asc")
    assert not signed_by(tmp_path, "wrong_signer", "SHA256SUMS.asc")
    assert not signed_by(tmp_path, "images_signer", "SHA256SUMS.wrong_signer.asc")

    # What was tampered with is made right again, and the signature with it.
    (folder / "SHA256SUMS").write_text("0  golden-1.tar.gz\n", encoding="utf-8")
    assert not signed_by(tmp_path, "images_signer", "SHA256SUMS.asc")
    assert run_rack_program("images.py", *build)["files"] == ["SHA256SUMS"]
    assert signed_by(tmp_path, "images_signer", "SHA256SUMS.asc")


def signed_by(rack: Path, signer: str, signature: str) -> bool:
    folder = rack / "images"
    keyring = rack / "keys" / f"{signer}.gpg"
    argv = ["gpgv", "--keyring", str(keyring), str(folder / signature), str(folder / "SHA256SUMS")]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
