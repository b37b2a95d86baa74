# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three verbs through ansible-playbook, by both doors: in the controller's worker, and shipped to a jump host."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_bmc.redfish_server import PASSWORD
from suite import playbook

from .conftest import RedfishRig

CHECKOUT = Path(__file__).resolve().parents[3]
#: What the modules' documentation says that they need.
DECLARED = ("sushy", "pyghmi", "netaddr")


class Play:
    """Runs tasks on one host, ``node1``, whose BMC is the rig's."""

    def __init__(self, folder: Path, rig: RedfishRig) -> None:
        self.folder, self.rig = folder, rig
        self.ledger = folder / "ledger.sqlite"
        self.host = {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
            "gpufleet_serial": "SN0001", "gpufleet_boot_mac": "52:54:00:00:00:01",
            "gpufleet_ledger_url": f"sqlite:///{self.ledger}",
            **{f"gpufleet_{key}": value for key, value in rig.params.items() if key != "system_uuid"},
        }  # fmt: skip
        self.others: dict[str, Any] = {}
        self.output = ""

    def run(self, *tasks: dict[str, Any], flags: tuple[str, ...] = (), **variables: Any) -> dict[str, Any]:
        """The results of the tasks by their registered name; ``rc`` is the playbook's own."""
        asked = [{**task, "register": f"r{number}", "ignore_errors": True} for number, task in enumerate(tasks)]
        names = [f"r{number}" for number in range(len(tasks))]
        keep = {"ansible.builtin.copy": {
            "dest": str(self.folder / "results.json"), "mode": "0600",
            "content": "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}",
        }, "check_mode": False, "diff": False, "no_log": True, "delegate_to": "localhost"}  # fmt: skip
        done = self.ansible([*asked, keep], flags, **variables)
        assert done.returncode == 0, self.output
        results: dict[str, Any] = json.loads((self.folder / "results.json").read_text())
        return results

    def ansible(self, tasks: list[Any], flags: tuple[str, ...] = (), **variables: Any) -> Any:
        """A play of these tasks, as it ended."""
        done = playbook.run([*self.files(tasks, variables), *flags], cwd=self.folder, env=self.environment())
        self.output = done.stdout + done.stderr
        return done

    def started(self, tasks: list[Any], **variables: Any) -> subprocess.Popen[bytes]:
        """The program itself, with a play of these tasks, for a test that ends it."""
        argv = [str(playbook.PROGRAM), *self.files(tasks, variables)]
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(argv, cwd=self.folder, env=self.environment(), start_new_session=True, **output)

    def files(self, tasks: list[Any], variables: dict[str, Any]) -> list[str]:
        """Inventory and playbook, as arguments."""
        book = [{"hosts": "node1", "gather_facts": False, "tasks": tasks}]
        hosts = {"node1": {**self.host, **variables}, **self.others}
        (self.folder / "book.yml").write_text(yaml.safe_dump(book))
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        return ["-i", "hosts.yml", "book.yml"]

    def environment(self) -> dict[str, str]:
        (self.folder / "nothing.pem").touch()
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"), "ANSIBLE_HOST_KEY_CHECKING": "false",
            "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8",
            "REQUESTS_CA_BUNDLE": str(self.folder / "nothing.pem"), "HTTPS_PROXY": "http://127.0.0.1:9",
        }  # fmt: skip

    def events(self) -> list[tuple[str, str]]:
        with sqlite3.connect(self.ledger) as ledger:
            return list(ledger.execute("SELECT kind, name FROM events ORDER BY id"))


Make = Callable[..., RedfishRig]


@pytest.fixture
def play(tmp_path: Path, fake: Make) -> Play:
    return Play(tmp_path, fake("plain", lag=0.1))


def task(verb: str, **options: Any) -> dict[str, Any]:
    return {f"gpufleet.baremetal.{verb}": options}


def test_t1_a_bmc_that_echoes_the_password_tells_nobody(play: Play) -> None:
    """In its error, which becomes the task's and the ledger's, and in what a reading verb returns."""
    play.rig.bmc.faults["refuse"] = (400, "Base.1.8.GeneralError", f"'{PASSWORD}' of {play.rig.params['bmc_username']}")
    vendor = play.rig.bmc.vendor
    play.rig.bmc.vendor = {**vendor, "system": {**vendor["system"], "Model": f"Model {PASSWORD}"}}
    found = play.run(task("bmc_info"), task("pxe_boot", power="on", force_reason="new"), flags=("-vvv", "--diff"))
    assert "Model ****" in json.dumps(found["r0"]), "the peer's word stands there, without the secret in it"
    assert found["r1"]["failed"] and "****" in found["r1"]["msg"] and "****" in found["r1"]["error"]["seen"]
    assert PASSWORD not in json.dumps(found)
    assert PASSWORD not in play.output
    assert PASSWORD.encode() not in b"".join(path.read_bytes() for path in play.folder.glob("ledger.sqlite*"))
    assert ("outcome", "pxe_boot") in play.events()


def test_the_three_verbs_in_the_worker(play: Play) -> None:
    found = play.run(
        task("bmc_info"),
        task("pxe_boot", power="on", force_reason="new"),
        task("redfish_power", state="on"),
        task("redfish_power", state="force_off"),
        task("redfish_power", state="force_off", force_reason="the test says so"),
        flags=("-vvv", "--diff"),
    )
    assert found["r0"]["identity"]["serial"] == "SN0001" and found["r0"]["power"] == "off"
    assert (found["r1"]["proof"], found["r1"]["verdict"], found["r1"]["changed"]) == ("readback", "pass", True)
    assert play.rig.bmc.machine.boots == ["Pxe"]
    assert found["r2"]["changed"] is False and found["r2"]["asked"] == []
    assert found["r3"]["failed"] and found["r3"]["error"]["kind"] == "evidence_missing"
    assert found["r4"]["evidence"] == "forced:the test says so" and found["r4"]["after"] == {"power": "off"}
    assert found["r4"]["diff"] == {"before": {"power": "on"}, "after": {"power": "off"}}
    assert play.rig.power() == "Off" and play.rig.bmc.failed_logins == 0
    kinds = play.events()
    assert kinds.count(("intent", "pxe_boot")) == 1 and kinds.count(("outcome", "pxe_boot")) == 1
    assert ("note", "forced") in kinds and kinds[-1] == ("outcome", "redfish_power")


@pytest.mark.slow
def test_no_password_anywhere(play: Play) -> None:
    play.run(
        task("pxe_boot", power="on", force_reason="new"),
        task("redfish_power", state="off"),
        task("bmc_info"),
        flags=("-vvvv", "--diff"),
    )
    texts = [play.output, (play.folder / "results.json").read_text()]
    texts.append(play.ledger.read_bytes().decode("latin-1"))
    for text in texts:
        assert PASSWORD not in text


@pytest.mark.slow
def test_a_wrong_password_is_tried_once_and_not_shown(play: Play) -> None:
    found = play.run(task("redfish_power", state="on"), flags=("-vvvv",), gpufleet_bmc_password="wrong-horse")
    assert found["r0"]["error"]["kind"] == "auth" and "gpufleet_bmc_password" in found["r0"]["msg"]
    assert play.rig.bmc.failed_logins == 1
    assert "wrong-horse" not in play.output


@pytest.mark.slow
def test_check_mode_writes_nothing(play: Play) -> None:
    found = play.run(
        task("pxe_boot", power="restart"), task("redfish_power", state="cycle"), flags=("--check", "--diff")
    )
    assert found["r0"]["changed"] and found["r0"]["after"]["power"] == "on" and found["r0"]["verdict"] == "inconclusive"
    assert found["r1"]["after"] == {"power": "on"}
    assert play.rig.writes() == 0 and not play.ledger.exists()


@pytest.mark.slow
def test_past_the_provisioner_only_under_its_maintenance(play: Play) -> None:
    found = play.run(
        task("redfish_power", state="on"), task("pxe_boot"), task("bmc_info"), gpufleet_provisioner="ironic"
    )
    for name in ("r0", "r1"):
        assert found[name]["error"]["kind"] == "not_ours" and "provisioner" in found[name]["msg"]
    assert found["r2"]["power"] == "off" and play.rig.writes() == 0


@pytest.mark.slow
def test_what_is_missing_is_named(play: Play) -> None:
    found = play.run(
        task("redfish_power", state="on"), task("redfish_power", state="sideways"), gpufleet_bmc_address=""
    )
    assert "gpufleet_bmc_address" in found["r0"]["msg"]
    assert "sideways" in found["r1"]["msg"]


# -- the other door ------------------------------------------------------------------------------------------------


def _needed(name: str, found: set[str]) -> set[str]:
    """A distribution and all that it requires, as their own metadata says."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return found
    try:
        wanted = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return found  # required on other systems or Pythons only
    found.add(name)
    for requirement in wanted:
        if "extra ==" not in requirement:
            _needed(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0], found)
    return found


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the modules' declared requirements and nothing else."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    target = next((folder / "lib").glob("python*/site-packages"))
    for name in set().union(*(_needed(one, set()) for one in DECLARED)):
        for entry in {file.parts[0] for file in importlib.metadata.files(name) or [] if file.parts[0] != ".."}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(entry)))
            if source.exists() and not (target / entry).exists() and entry != "__pycache__":
                (target / entry).symlink_to(source)
    python = folder / "bin" / "python"
    assert subprocess.run([python, "-c", "import sushy, pyghmi"], check=False).returncode == 0
    assert subprocess.run([python, "-c", "import sqlalchemy"], capture_output=True, check=False).returncode != 0
    return python


@pytest.fixture
def jump(play: Play, bare_python: Path) -> Iterator[Play]:
    """A second machine as far as Ansible can tell: reached over SSH, with an interpreter of its own."""
    server, keygen = shutil.which("sshd") or "/usr/sbin/sshd", shutil.which("ssh-keygen")
    if not Path(server).exists() or not keygen or not shutil.which("ssh"):
        pytest.skip("needs sshd and ssh")
    folder = play.folder / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as probe:
        probe.bind(("127.0.0.5", 0))
        port = probe.getsockname()[1]
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.5:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nPidFile none\n"
        "PasswordAuthentication no\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        "Subsystem sftp internal-sftp\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    daemon = subprocess.Popen([server, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    try:
        _wait_for_port("127.0.0.5", port)
        play.others["jump"] = {
            "ansible_connection": "ssh", "ansible_host": "127.0.0.5", "ansible_port": port, "ansible_user": "root",
            "ansible_ssh_private_key_file": str(folder / "user"), "ansible_python_interpreter": str(bare_python),
            "ansible_ssh_common_args": "-o UserKnownHostsFile=/dev/null -o ControlMaster=no -o IdentitiesOnly=yes",
        }  # fmt: skip
        yield play
    finally:
        daemon.terminate()
        daemon.wait()


def _wait_for_port(address: str, port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@pytest.mark.needs_root
@pytest.mark.slow
def test_the_three_verbs_through_a_jump_host(jump: Play) -> None:
    there = {"delegate_to": "jump"}
    found = jump.run(
        {**task("bmc_info"), **there},
        {**task("pxe_boot", power="on", force_reason="new"), **there},
        {**task("redfish_power", state="on"), **there},
        {**task("redfish_power", state="force_off"), **there},
        {**task("redfish_power", state="force_off", force_reason="the test says so"), **there},
        {**task("redfish_power", state="on", bmc_password="wrong-horse"), **there},
        flags=("-vvv", "--diff"),
    )
    assert found["r0"]["identity"]["serial"] == "SN0001", jump.output
    assert (found["r1"]["proof"], found["r1"]["verdict"], found["r1"]["changed"]) == ("readback", "pass", True)
    assert found["r2"]["changed"] is False
    assert found["r3"]["error"]["kind"] == "evidence_missing"
    assert found["r4"]["evidence"] == "forced:the test says so" and found["r4"]["after"] == {"power": "off"}
    assert found["r5"]["failed"] and found["r5"]["error"]["kind"] == "auth"
    assert jump.rig.power() == "Off" and jump.rig.bmc.failed_logins == 1
    for secret in (PASSWORD, "wrong-horse"):
        assert secret not in jump.output and secret not in jump.ledger.read_bytes().decode("latin-1")
    assert ("outcome", "pxe_boot") in jump.events()
