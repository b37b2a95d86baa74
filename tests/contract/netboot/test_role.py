# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role netboot as a site runs it, and the very dnsmasq that it sets up: who is answered, and with what."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from suite import playbook

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
MAC, OTHER, LATE = "52:54:00:99:00:01", "52:54:00:99:00:02", "52:54:00:99:00:03"
needs_dnsmasq = pytest.mark.skipif(
    not shutil.which("dnsmasq") or os.geteuid() != 0, reason="dnsmasq is not installed, or nobody may make a namespace"
)


def role(folder: Path, mode: str) -> tuple[Path, str]:
    """Where it set the server up, and what the second run of it said."""
    loaders = {kind: folder / f"{kind}.bin" for kind in ("bios", "efi64")}
    for kind, path in loaders.items():
        path.write_text(f"the loader of {kind}", encoding="ascii")
    settings = {
        "netboot_dir": str(folder / "srv"),
        "netboot_interface": "srv0",
        "netboot_address": "10.99.0.1",
        "netboot_mode": mode,
        "netboot_subnet": "10.99.0.0",
        "netboot_range": ["10.99.0.100", "10.99.0.110"],
        "netboot_router": "10.99.0.254",
        "netboot_loaders": {kind: str(path) for kind, path in loaders.items()},
        "netboot_command": str(folder / "gpufleet-netboot"),
        "netboot_packages": False,
        "netboot_units": False,
        "ansible_python_interpreter": sys.executable,
    }
    called = [{"ansible.builtin.import_role": {"name": "gpufleet.baremetal.netboot"}}]
    play = {"name": "test", "hosts": "localhost", "gather_facts": False, "vars": settings, "tasks": called}
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
        "ANSIBLE_LOCALHOST_WARNING": "False",
    }
    for _run in range(2 if mode == "proxy" else 1):
        done = playbook.run(["-i", "localhost,", "-c", "local", str(folder / "play.yml")], env=env)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return folder / "srv", done.stdout


@pytest.fixture(scope="module", params=["proxy", "dhcp"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    folder.chmod(0o755)
    root, output = role(folder, request.param)
    return request.param, root, output


def command(root: Path, *words: str, given: Any = None) -> Any:
    argv = [str(root.parent / "gpufleet-netboot"), *words]
    done = subprocess.run(argv, input=json.dumps(given), capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


class Wire:
    """The namespace, and a card in it."""

    def __init__(self, root: Path) -> None:
        script = str(Path(__file__).with_name("exchange.py"))
        argv = ["unshare", "--net", sys.executable, "-I", script, str(root / "dnsmasq.conf")]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def boot(self, mac: str, arch: int = 7, ipxe: bool = False, quiet: bool = False) -> Any:
        return self.ask(mac=mac, arch=arch, ipxe=ipxe, quiet=quiet)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)


@contextmanager
def wire(root: Path) -> Iterator[Wire]:
    made = Wire(root)
    try:
        yield made
    finally:
        made.close()


@needs_dnsmasq
def test_the_role_run_again_changes_nothing_and_dnsmasq_takes_what_it_wrote(server: Any) -> None:
    mode, root, output = server
    assert mode != "proxy" or "changed=0" in output and "failed=0" in output
    told = subprocess.run(["dnsmasq", "--test", f"--conf-file={root}/dnsmasq.conf"], capture_output=True, text=True)
    assert told.returncode == 0 and "syntax check OK" in told.stderr
    assert "dhcp-ignore=tag:!known" in (root / "dnsmasq.conf").read_text(encoding="utf-8")


@needs_dnsmasq
def test_who_is_enrolled_is_answered_and_nobody_else(server: Any) -> None:
    mode, root, _output = server
    command(root, "put", "gpu001", "0", given={"mac": MAC, **({"ip": "10.99.0.17"} if mode == "dhcp" else {})})
    with wire(root) as cable:
        offer = cable.boot(MAC)
        assert offer is not None
        assert offer["address"] == ("10.99.0.17" if mode == "dhcp" else "0.0.0.0")
        for arch, loader in ((7, "efi64.bin"), (0, "bios.bin")):
            told = cable.boot(MAC, arch=arch)
            assert loader in (told["file"] or told["menu"]) or mode == "proxy", told
            assert cable.ask(tftp=loader) == f"the loader of {loader[:-4]}"
        led = cable.boot(MAC, ipxe=True)
        assert led["file"] == "http://10.99.0.1:8080/boot.ipxe", led
        assert cable.boot(OTHER, quiet=True) is None, "nobody who is not enrolled"
        assert cable.boot(OTHER, ipxe=True, quiet=True) is None
        if mode == "dhcp":
            assert offer["router"] == "10.99.0.254"
        # Enrolled while it runs: it is answered without a restart.
        command(root, "put", "gpu003", "0", given={"mac": LATE})
        assert cable.boot(LATE) is not None
        # Kept out, back on another card, and taken away: what a reload reads is what it goes by.
        command(root, "out", "gpu003")
        cable.ask(reload="gpu001")
        assert cable.boot(LATE, quiet=True) is None
        command(root, "put", "gpu003", "2", given={"mac": OTHER})
        command(root, "in", "gpu003")
        cable.ask(reload="gpu001")
        assert cable.boot(OTHER) is not None and cable.boot(LATE, quiet=True) is None
        command(root, "remove", "gpu003")
        cable.ask(reload="gpu001")
        assert cable.boot(OTHER, quiet=True) is None
        assert cable.ask(tftp="../nodes/gpu001.json").startswith("error"), "nothing but loaders is served"


def test_the_web_server_gives_each_node_its_own_and_strangers_nothing(server: Any) -> None:
    _mode, root, _output = server
    sys.path.insert(0, str(root / "bin"))
    argv = [sys.executable, str(root / "bin" / "serve.py"), "--root", str(root), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = "http://" + process.stdout.readline().split(" at ")[1].strip()
        made = command(root, "put", "gpu009", "0", given={"mac": "52:54:00:99:00:09"})["nodes"]["gpu009"]
        body = {"entry": "#!ipxe\nboot\n", "note": {"name": "gold"}}
        command(root, "boot", "gpu009", str(made["version"]), given=body)
        assert get(f"{url}/entries/52-54-00-99-00-09.ipxe") == "#!ipxe\nboot\n"
        assert command(root, "list", "gpu009")["nodes"]["gpu009"]["seen"]["what"] == "entry"
        assert "set gpufleet http://10.99.0.1:8080" in get(f"{url}/boot.ipxe")
        outside = ("images/../../nodes/gpu009.json", "images/%2e%2e/%2e%2e/nodes/gpu009.json", "images/..%2fboot.ipxe")
        strangers = ("entries/52-54-00-99-00-77.ipxe", "failed/52-54-00-99-00-77/boot", "failed/x/boot")
        for path in (*strangers, *outside, "../nodes/gpu009.json", "nodes/gpu009.json"):
            assert get(f"{url}/{path}") == "404", path
        assert not (root / "seen" / "52-54-00-99-00-77.json").exists(), "of a stranger nothing is written down"
        command(root, "out", "gpu009")
        assert get(f"{url}/entries/52-54-00-99-00-09.ipxe") == "404", "a person keeps it out"
    finally:
        process.terminate()
        process.wait(timeout=10)


def get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as exc:
        return str(exc.code)


def test_two_writers_lose_nothing(server: Any) -> None:
    """Each write is made of a version; the later one is told that there is a newer."""
    _mode, root, _output = server
    command(root, "put", "gpu005", "0", given={"mac": "52:54:00:99:00:05"})
    assert (
        command(root, "put", "gpu005", "1", given={"mac": "52:54:00:99:00:05", "hold": "x"})["nodes"]["gpu005"][
            "version"
        ]
        == 2
    )
    late = command(root, "put", "gpu005", "1", given={"mac": "52:54:00:99:00:05", "owner": "y"})
    assert late["kind"] == "changed"
    assert command(root, "put", "gpu006", "0", given={"mac": "52:54:00:99:00:05"})["kind"] == "mac"
    assert command(root, "put", "../gpu006", "0", given={"mac": OTHER})["kind"] == "refused"
    assert command(root, "put", "gpu006", "0", given={"mac": f"{OTHER},set:known"})["kind"] == "refused"
