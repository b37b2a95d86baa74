# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task looks at all nodes: each is asked as itself, and told nothing of another."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.gate.test_detached import (
    ALL,
    START,
    VALIDATING,
    WAIT,
    Site,
)
from suite import programs

pytestmark = pytest.mark.slow
#: Asks for a password where it was given a prompt, and writes down what it hears. As whom it runs matters not here.
SUDO = """#!/bin/sh
while :; do
    case $1 in -p) prompt=$2; shift 2 ;; -u) shift 2 ;; -*) shift ;; *) break ;; esac
done
if [ -n "$prompt" ]; then printf %s "$prompt" >&2; read -r word; echo "$word" >> {home}/heard; fi
echo called >> {home}/sudo
exec "$@"
"""
SHELL = '#!/bin/sh\necho "$@" >> {home}/shell\nexec /bin/sh "$@"\n'
#: Asks for a password by the program that Ansible hands it, or by sshpass's file descriptor; then runs its last word.
SSH = """#!/bin/sh
if [ -n "$SSH_ASKPASS" ]; then "$SSH_ASKPASS" "password:" >> {home}/heard; fi
for last; do :; done
echo "$*" >> {home}/ssh
exec /bin/sh -c "$last"
"""
SSHPASS = '#!/bin/bash\ncat <&"${{1#-d}}" >> {home}/heard\nshift\nexec "$@"\n'


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the tests are run by root."""
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")


def program(home: Path, name: str, text: str) -> str:
    return programs.put(home / name, text.format(home=home))


def heard(site: Site, name: str) -> set[str]:
    path = site.folder / name / "heard"
    return set(path.read_text(encoding="utf-8").split()) if path.exists() else set()


def two(site: Site, *more: str, **variables: Any) -> None:
    """Each has a sudo of its own."""
    for name in ("a", "b", *more):
        home = site.host(name)
        site.hosts[name].update(ansible_become=True, ansible_become_exe=program(home, "own_sudo", SUDO), **variables)


def passed(found: Mapping[str, list[dict[str, Any]]], *names: str) -> None:
    assert [found[name][-1]["verdict"] for name in names] == ["pass"] * len(names), found


@pytest.mark.usefixtures("sudo")
def test_m1_a_sudo_password_is_told_to_no_other_host(site: Site) -> None:
    """Whatever the variable is called by which the first host has it."""
    two(site)
    for variable in ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"):
        site.hosts["a"][variable] = f"secret-of-a-{variable}"
        passed(site.play(*ALL), "a", "b")
        assert heard(site, "a") == {site.hosts["a"].pop(variable)} and heard(site, "b") == set()
        (site.folder / "a" / "heard").unlink()


@pytest.mark.usefixtures("sudo")
def test_m1_a_sudo_password_of_a_host_that_runs_no_sudo_is_told_to_nobody(site: Site) -> None:
    """Then no plugin tells by which further names it is known."""
    two(site)
    site.hosts["a"].update(ansible_become=False, ansible_become_password="secret-of-a")
    passed(site.play(*ALL), "a", "b")
    assert heard(site, "a") == heard(site, "b") == set()


@pytest.mark.usefixtures("sudo")
def test_m1_the_password_of_the_host_that_is_delegated_to_is_told_to_no_other(site: Site) -> None:
    two(site, "c")
    own = {"ansible.builtin.set_fact": {"ansible_become_password": "secret-of-c"}, "when": "inventory_hostname == 'c'"}
    found = site.play(VALIDATING, START, own, {**WAIT, "delegate_to": "c"})
    assert all(one["ok"] for one in found["a"][-1]["verdicts"].values()), found
    assert heard(site, "a") == heard(site, "b") == set()
    assert heard(site, "c") == {"secret-of-c"}


@pytest.mark.usefixtures("sudo")
def test_m1_the_password_of_the_run_is_told_to_all_that_have_none(site: Site) -> None:
    two(site)
    site.hosts["b"]["ansible_become_password"] = "secret-of-b"
    (site.folder / "asked").write_text("of-the-run\n", encoding="utf-8")
    passed(site.play(*ALL, flags=("--become-password-file", "asked")), "a", "b")
    assert heard(site, "a") == {"of-the-run"} and heard(site, "b") == {"secret-of-b"}


def test_m1_an_ssh_password_is_told_to_no_other_host(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.host("a", ansible_password="secret-of-a")
    home = site.host("b")
    (site.folder / "bin").mkdir()
    program(site.folder / "bin", "sshpass", SSHPASS.replace("{home}", str(home)))
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    distant = {"ansible_connection": "ssh", "ansible_ssh_executable": program(home, "own_ssh", SSH)}
    gone = {"ansible.builtin.set_fact": distant, "when": "inventory_hostname == 'b'"}
    found = site.play(VALIDATING, START, gone, WAIT)
    assert (home / "ssh").exists() and found["a"][-1]["verdicts"]["b"]["ok"], found
    assert heard(site, "b") == set()
    site.hosts["b"]["ansible_password"] = "secret-of-b"
    site.play(START, gone, WAIT)
    assert heard(site, "b") == {"secret-of-b"}


@pytest.mark.usefixtures("sudo")
def test_m1_a_variable_of_the_task_is_made_for_each_host(site: Site) -> None:
    two(site)
    for name in ("a", "b"):
        site.hosts[name]["word"] = f"secret-of-{name}"
    said = {"ansible_become_password": "{{ hostvars[inventory_hostname].word }}"}
    found = site.play(VALIDATING, START, {**WAIT, "vars": said})
    assert all(one["ok"] for one in found["a"][-1]["verdicts"].values()), found
    assert heard(site, "a") == {"secret-of-a"} and heard(site, "b") == {"secret-of-b"}


@pytest.mark.usefixtures("sudo")
def test_m1_a_variable_of_the_task_stands_below_what_was_set_for_a_host(site: Site) -> None:
    """Where Ansible puts it."""
    two(site)
    fact = {"ansible.builtin.set_fact": {"ansible_become_password": "set-for-{{ inventory_hostname }}"}}
    found = site.play(VALIDATING, START, fact, {**WAIT, "vars": {"ansible_become_password": "of-the-task"}})
    assert all(one["ok"] for one in found["a"][-1]["verdicts"].values()), found
    assert heard(site, "a") == {"set-for-a"} and heard(site, "b") == {"set-for-b"}


@pytest.mark.usefixtures("sudo")
def test_m1_a_variable_that_is_left_out_is_none(site: Site) -> None:
    two(site, ansible_become_password="{{ word | default(omit) }}")
    site.hosts["b"]["word"] = "secret-of-b"
    passed(site.play(*ALL), "a", "b")
    assert heard(site, "a") == set() and heard(site, "b") == {"secret-of-b"}


def test_m1_a_shell_is_that_of_its_own_host(site: Site) -> None:
    for name in ("a", "b"):
        site.host(name)
    site.hosts["a"]["ansible_shell_executable"] = program(site.folder / "a", "own_shell", SHELL)
    passed(site.play(*ALL), "a", "b")
    used = (site.folder / "a" / "shell").read_text(encoding="utf-8")
    assert str(site.folder / "a" / "jobs") in used and str(site.folder / "b") not in used


def test_m2_nobody_becomes_who_they_are(site: Site) -> None:
    """Ansible runs no sudo then, so that a node without one is no worse."""
    me = getpass.getuser()
    site.host("a", ansible_become=True, ansible_become_user=me, ansible_become_exe="/nonexistent/sudo")
    passed(site.play(*ALL), "a")


@pytest.mark.usefixtures("sudo")
def test_m2_who_says_so_becomes_who_they_are(site: Site) -> None:
    two(site, ansible_become_user=getpass.getuser())
    forgotten = {
        "ansible.builtin.file": {"path": "{{ home }}/sudo", "state": "absent"},
        "vars": {"ansible_become": False},
    }
    found = site.play(VALIDATING, START, forgotten, WAIT)
    assert all(one["ok"] for one in found["a"][-1]["verdicts"].values()), found
    assert all((site.folder / name / "sudo").exists() for name in ("a", "b"))


@pytest.mark.usefixtures("sudo")
def test_m1_a_password_of_the_play_is_each_hosts_and_made_of_its_own_variables(site: Site) -> None:
    two(site)
    for name in ("a", "b"):
        site.hosts[name]["vault_of_it"] = f"OF-{name}"
    site.of_play = {"ansible_become_password": "{{ vault_of_it }}"}
    passed(site.play(*ALL), "a", "b")
    assert (heard(site, "a"), heard(site, "b")) == ({"OF-a"}, {"OF-b"})
