# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the pages tell a reader to write works, letter by letter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_bmc.tls import Authority

ROOT = Path(__file__).resolve().parents[3]
# A block, and the last file that the text before it names
BLOCK = re.compile(r"`([\w./]+\.(?:yml|csv))`[^`]*\n\n```(?:yaml|csv)\n(.*?)```", re.DOTALL)


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def write(folder, chosen):
    for name, content in chosen:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def tool(folder, *command):
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
        "BMC_PASSWORD": "of-the-bmc",
        "IRONIC_PASSWORD": "of-ironic",
        "MAAS_API_KEY": "a:b:c",
    }
    program = str(Path(sys.executable).parent / command[0])
    return subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def readme(tmp_path):
    """The files of the quick start in the order of the page: the one for Ironic comes second."""
    found = blocks("README.md")
    assert [name for name, _content in found] == ["fleet.yml", "servers.csv", "fleet.yml", "group_vars/all.yml"]
    write(tmp_path, [found[0], found[1], found[3]])
    return tmp_path, found[2][1]


def test_the_list_of_servers_is_an_inventory(readme):
    folder, _ironic = readme
    done = tool(folder, "ansible-inventory", "-i", "fleet.yml", "--list", "--limit", "rack12")
    assert done.returncode == 0, done.stderr
    hosts = json.loads(done.stdout)["_meta"]["hostvars"]
    assert sorted(hosts) == ["gpu001", "gpu002"]
    first = hosts["gpu001"]
    assert first["gpufleet_serial"] == "S4X0012K"
    assert first["gpufleet_bmc_address"] == "https://10.20.12.1"
    assert first["gpufleet_provisioner"] == "ironic"
    assert first["ansible_host"] == "10.10.12.1"


@pytest.mark.slow
def test_the_password_is_read_where_the_list_says(readme):
    folder, _ironic = readme
    answer = tool(
        folder, "ansible", "gpu003", "-i", "fleet.yml", "-c", "local", "-m", "ansible.builtin.debug",
        "-a", "msg={{ gpufleet_bmc_password }},{{ gpufleet_bmc_protocol }},{{ gpufleet_scheduler_node }}",
    )  # fmt: skip
    assert "of-the-bmc,ipmi,gpu003" in answer.stdout, answer.stdout + answer.stderr


@pytest.mark.slow
def test_day_0_takes_the_rack_of_the_list(readme):
    folder, _ironic = readme
    play = ("gpufleet.baremetal.day0_bringup", "-i", "fleet.yml", "--limit", "rack12", "--list-hosts")
    done = tool(folder, "ansible-playbook", *play)
    assert done.returncode == 0, done.stderr
    assert "hosts (2)" in done.stdout and "gpu003" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("page", "number"), [("README.md", 2), ("docs/how-to/own-rack.md", 0)])
def test_the_other_sources_are_asked_and_nothing_is_wrong_but_that_nobody_answers(readme, tmp_path, page, number):
    folder, _ironic = readme
    content = re.sub(r"url: https://\S+?(/MAAS)?\n", r"url: http://127.0.0.1:9\1\n", blocks(page)[number][1])
    authority = Authority(tmp_path / "authority")
    content = content.replace("/etc/gpufleet/ca.pem", str(authority.path))
    (folder / "fleet.yml").write_text(content, encoding="utf-8")
    done = tool(folder, "ansible-inventory", "-i", "fleet.yml", "--list")
    assert done.returncode != 0
    assert "127.0.0.1:9" in done.stderr, done.stderr
    assert "of-ironic" not in done.stderr and "a:b:c" not in done.stderr


def test_the_key_pair_of_the_page_is_one_that_openssl_makes(tmp_path):
    page = (ROOT / "docs/how-to/own-rack.md").read_text(encoding="utf-8")
    commands = [line for line in page.splitlines() if line.startswith("openssl ")]
    assert len(commands) == 2
    for command in commands:
        words = command.replace("/etc/gpufleet", str(tmp_path)).split()
        subprocess.run(words, check=True, capture_output=True)
    assert "BEGIN PUBLIC KEY" in (tmp_path / "passport_ed25519.pub.pem").read_text(encoding="utf-8")
