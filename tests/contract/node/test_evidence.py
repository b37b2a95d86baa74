# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook evidence: a node with its tools, its BMC and its history, and what a maker finds in the archive."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.docs.blocks import blocks
from contract.gate.test_doors import PLAYBOOK, Site
from fake_bmc.logs import MANAGER, Logs, OneLog, events
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from suite import playbook

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python"),
]
BOOK = made.CHECKOUT / "playbooks" / "evidence.yml"
FALLEN = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
#: What stands in place of a node's tools: by name, what each prints and how it ends.
TOOLS = {
    "journalctl": f"echo '{FALLEN}'",
    "nvidia-smi": "echo 'Serial Number : 1563221000001'; exit 15",
    "dcgmi": "sleep 60",
    "lspci": "head -c 3000000 /dev/zero | tr '\\0' x",
    "ip": "echo boot password=HuNter22secret link",
}


class Ward(Site):
    """One node whose tools are these, behind a BMC."""

    def __init__(self, folder: Path, bmc: FakeBmc) -> None:
        super().__init__(folder)
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.host("gpu001")
        for name, body in TOOLS.items():
            (self.tools / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            (self.tools / name).chmod(0o755)
        login = {"username": USER, "password": PASSWORD, "address": bmc.url, "protocol": "redfish"}
        self.hosts["gpu001"].update({f"gpufleet_bmc_{name}": value for name, value in login.items()})

    def pack(self, *argv: str, **said: Any) -> str:
        [play] = yaml.safe_load(BOOK.read_text(encoding="utf-8"))
        # What the playbook's tasks are told of this machine, and of no site's.
        here = {"gpufleet.baremetal.node_evidence": {"dmi_path": "{{ dmi }}", "timeout": 90}}
        book = self.folder / "evidence.yml"
        book.write_text(yaml.safe_dump([{**play, "module_defaults": here}]), encoding="utf-8")
        inventory = self.folder / "hosts.yml"
        shared = {"gpufleet_ledger_url": f"sqlite:///{self.ledger}"}
        inventory.write_text(yaml.safe_dump({"all": {"hosts": self.hosts, "vars": shared}}), encoding="utf-8")
        env = {
            **os.environ,
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(made.CHECKOUT / "build" / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
        }
        given = {"evidence_folder": str(self.folder / "out"), "evidence_case": "RMA 47/11", **said}
        command = ["-i", str(inventory), str(book), "-e", json.dumps(given), *argv]
        done = playbook.run(command, env=env, timeout=120, cwd=self.folder)
        self.output = done.stdout + done.stderr
        assert done.returncode == 0, self.output[-4000:]
        return self.output

    def opened(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The list, and each file that it names; everything is as the list says."""
        [path] = (self.folder / "out").glob("*.tar.xz")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with tarfile.open(path) as tar:
            found = {member.name.partition("/")[2]: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        told = json.loads(found.pop("MANIFEST.json"))
        assert {row["path"]: row["sha256"] for row in told["files"]} == {
            name: hashlib.sha256(content).hexdigest() for name, content in found.items()
        }
        return told, found


def bmc_of(serial: str) -> FakeBmc:
    bmc = FakeBmc()
    bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], "SerialNumber": serial}}
    bmc.logs = Logs(OneLog(f"{MANAGER}/LogServices/SEL", events(4, Message=f"login with {PASSWORD}")))
    return bmc


@pytest.fixture
def ward(tmp_path: Path) -> Any:
    with bmc_of("gpu001") as bmc:
        found = Ward(tmp_path, bmc)
        found.play({"gpufleet.baremetal.ledger_event": {"kind": "note", "name": "stopped", "reason": "it was silent"}})
        yield found


def test_a_maker_finds_what_it_asks_for(ward: Ward) -> None:
    report = ward.folder / "nvidia bug report.log.gz"
    report.write_bytes(b"\x1f\x8b as it is")
    ward.pack(evidence_files=[str(report)])
    told, files = ward.opened()
    assert told["case"] == "RMA 47/11" and told["machine"]["serial"] == "gpu001"
    assert FALLEN in files["node/kernel_log.txt"].decode() and b"1563221000001" in files["node/gpus.txt"]
    assert "it was silent" in files["ledger/story.txt"].decode() and "it was silent" in files["README.txt"].decode()
    assert json.loads(files["bmc/machine.json"])["identity"]["serial"] == "gpu001"
    assert [one["id"] for one in json.loads(files["bmc/log.json"])["entries"]] == ["4", "3", "2", "1"]
    assert files["files/nvidia-bug-report.log.gz"] == b"\x1f\x8b as it is"
    [note] = [data for _host, name, data in ward.events("note") if name == "evidence"]
    [path] = (ward.folder / "out").iterdir()
    assert note["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest() and note["case"] == "RMA 47/11"
    assert path.name.startswith("gpu001_gpu001_RMA-47-11_")
    assert opened_as_the_page_says(path) == dict.fromkeys(files, "True")
    broken = path.with_name(path.name.replace("RMA-47-11", "RMA-48"))
    altered(path, broken, "files/nvidia-bug-report.log.gz")
    assert opened_as_the_page_says(broken) == {
        **dict.fromkeys(files, "True"),
        "files/nvidia-bug-report.log.gz": "False",
    }


def opened_as_the_page_says(archive: Path) -> dict[str, str]:
    """What its lines print of each file, typed by whoever got the archive."""
    [block] = [one for one in blocks("docs/how-to/send-evidence.md") if one.text.startswith("tar -x")]
    name = re.findall(r"tar -xJf (\S+)\.tar\.xz", block.text)[0]
    typed = block.text.replace(name, archive.name.removesuffix(".tar.xz"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    argv = ["sh", "-ec", typed]
    done = subprocess.run(
        argv, cwd=archive.parent, env={"PATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())  # type: ignore[misc]


def altered(archive: Path, to: Path, name: str) -> None:
    """The same with another file of this name, in a folder that is called as the archive."""
    folder, other = (one.name.removesuffix(".tar.xz") for one in (archive, to))
    with tarfile.open(archive) as tar, tarfile.open(to, "w:xz") as made:
        for member in tar:
            content = tar.extractfile(member).read()  # type: ignore[union-attr]
            content = b"another" if member.name == f"{folder}/{name}" else content
            member.name, member.size = member.name.replace(folder, other, 1), len(content)
            made.addfile(member, io.BytesIO(content))


def test_what_could_not_be_had_is_said(ward: Ward) -> None:
    """A tool that fails has said something all the same; one that floods or hangs hides nothing of the others."""
    ward.pack()
    told, files = ward.opened()
    lacks = "\n".join(told["lacks"])
    for words in ("nvidia-smi -q: exit status 15", "dcgmi -v: timeout", "lspci -nnvv: flood", "passport: none"):
        assert words in lacks, lacks
    assert "link" in files["node/ports.txt"].decode() and len(files["node/pci.txt"]) > 1_000_000
    assert all(word in files["README.txt"].decode() for word in ("dcgmi -v: timeout", "node/kernel_log.txt"))


def test_no_secret_goes_to_a_maker(ward: Ward) -> None:
    ward.pack()
    _told, files = ward.opened()
    for name, content in files.items():
        assert b"HuNter22secret" not in content and PASSWORD.encode() not in content, name


def test_of_a_node_that_answers_nobody_there_is_what_others_know(ward: Ward) -> None:
    ward.hosts["gpu001"].update(
        ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1, gpufleet_bmc_address="https://127.0.0.1:1"
    )
    ward.pack()
    told, files = ward.opened()
    assert set(files) == {"README.txt", "ledger/events.json", "ledger/story.txt"}
    assert {lack.partition(":")[0] for lack in told["lacks"]} == {"bmc", "bmc_log", "node", "passport"}
    assert told["machine"]["serial"] == "gpu001", "by the ledger"


def test_another_machines_parts_are_in_no_case(ward: Ward) -> None:
    with bmc_of("S-OTHER") as other:
        ward.hosts["gpu001"]["gpufleet_bmc_address"] = other.url
        ward.hosts["gpu001"]["dmi"] = made.dmi(ward.tools, "S-OTHER")
        ward.pack()
    told, files = ward.opened()
    assert not [name for name in files if name.startswith(("bmc/", "node/"))]
    assert "another machine is behind this BMC" in "\n".join(told["lacks"])
    assert all(b"S-OTHER" not in files[name] for name in ("ledger/story.txt", "ledger/events.json"))
    assert told["machine"]["serial"] == "gpu001"


def test_check_mode_writes_nothing(ward: Ward) -> None:
    ward.pack("--check")
    assert not (ward.folder / "out").exists()
    assert not [name for _host, name, _data in ward.events("note") if name == "evidence"]


def test_a_file_that_is_not_there_is_named_before_anything_is_written(ward: Ward) -> None:
    with pytest.raises(AssertionError):
        ward.pack(evidence_files=[str(ward.folder / "nothing.gz")])
    assert "nothing.gz" in ward.output and not (ward.folder / "out").exists()
