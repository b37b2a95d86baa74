# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role deploy where the provisioner boots nothing itself: machines are booted through their BMCs, with proof."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socketserver
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.tls import Authority
from suite import playbook
from suite.skips import not_applicable

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]
#: A task of each host's own, or tasks for all of them.
FORMS = ("main.yml", "for_all.yml")


class Machine:
    """A machine behind its BMC: what it boots from the network the provisioner sees, and it greets over SSH then."""

    def __init__(self, site: Any, options: dict[str, Any], folder: Path, authority: Authority) -> None:
        self.name = str(options["name"])
        self.options = options
        self.answers = folder / f"{self.name}.boot"
        self._site = site
        self._known = 1
        self.mute = 0  # so many network boots hang
        mac = options["boot_mac"].replace(":", "")
        # Each machine's own: a provisioner may know a BMC by its host alone.
        address = str(urlsplit(options["bmc_address"]).hostname)
        context = authority.server_context(address)
        self.bmc = FakeBmc("plain", context=context, address=address, power="On", lag=0.1, mac=mac)
        self.uuid = f"5ac00000-0000-4000-8000-{mac}"
        self.bmc.vendor = {**self.bmc.vendor, "system": {**self.bmc.vendor["system"], "UUID": self.uuid}}
        self._greeter = _Greeter(self)
        self._say()

    @property
    def port(self) -> int:
        return int(self._greeter.server_address[1])

    def live(self) -> None:
        """What has happened since it was looked at last."""
        on = self.bmc.machine.power == "On"
        if not on:
            self.answers.unlink(missing_ok=True)
        elif len(self.bmc.machine.boots) > self._known:
            self._known = len(self.bmc.machine.boots)
            if self.bmc.machine.boots[-1] == "Pxe":
                if self.mute >= self.bmc.machine.boots.count("Pxe"):
                    self.answers.unlink(missing_ok=True)
                    return
                self._site.boot(self.name)
            self._say()

    def _say(self) -> None:
        probe = self.bmc.machine.probe() or {}
        self.answers.write_text("\n".join([probe["boot_id"], probe["cmdline"], f"{probe['uptime']} 0.0", ""]))

    def variables(self, ca: Path) -> dict[str, Any]:
        bmc = {"address": self.bmc.url, "username": USER, "password": PASSWORD, "ca_path": str(ca)}
        own = {key: value for key, value in self.options.items() if key.startswith("provisioner") or key == "boot_mac"}
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_connection": "own_word",
            "node_answers": str(self.answers),
            "gpufleet_bmc_protocol": "redfish",
            "gpufleet_scheduler": "none",
            "enroll_driver": self._site.extras,
            "gpufleet_system_uuid": self.uuid,
            **{f"gpufleet_bmc_{key}": value for key, value in bmc.items()},
            **{f"gpufleet_{key}": value for key, value in own.items()},
        }

    def __enter__(self) -> Machine:
        self.bmc.__enter__()
        threading.Thread(target=self._greeter.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *told: Any) -> None:
        self._greeter.shutdown()
        self._greeter.server_close()
        self.bmc.__exit__(*told)


class _Greeter(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, machine: Machine) -> None:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if machine.answers.exists():
                    self.request.sendall(b"SSH-2.0-test\r\n")

        super().__init__(("127.0.0.1", 0), Handler)


class Room:
    """A few machines, an inventory of them, and the role."""

    def __init__(self, folder: Path, machines: list[Machine], ca: Path, image: dict[str, Any]) -> None:
        self.folder, self.machines = folder, machines
        self.meanwhile: Callable[[], None] = lambda: None
        self.aged = 0
        #: The role's file of tasks.
        self.form = FORMS[0]
        shared = {"gpufleet_ledger_url": f"sqlite:///{folder / 'ledger.sqlite'}", "gpufleet_image": image}
        self.hosts = {machine.name: machine.variables(ca) for machine in machines}
        self._inventory = {"all": {"hosts": self.hosts, "vars": shared}}

    def deploy(self, *, ok: bool = True, plays: int = 1, **settings: Any) -> dict[str, Any]:
        """The host-tasks of the run, by host. plays: so often the role deploys in one command."""
        proof = {"gpufleet.baremetal.scheduler_wait": {"until": "drained", "timeout": 5}, "run_once": True}
        ready_with = {"state": "ready", "driver": "{{ enroll_driver }}"}
        enrolled = {"gpufleet.baremetal.provisioner_node": ready_with, "register": "enrolled"}
        # As a site names it: the file main.yml by no name, so that its options are validated.
        form = {} if self.form == FORMS[0] else {"tasks_from": self.form}
        role = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.deploy", **form}}
        times = {"deploy_timeout": 20, "deploy_interval": 0.2, "deploy_boot_timeout": 20, "deploy_boot_interval": 0.2}
        more = {**times, "deploy_after": ["enrolled"], **settings}
        play = {"hosts": "all", "gather_facts": False, "strategy": "linear", "vars": more}
        ready = {
            "gpufleet.baremetal.provisioner_wait": {"until": "ready", "timeout": 20, "interval": 0.2},
            "run_once": True,
        }
        tasks = [proof, enrolled, ready, {"image_was_verified": {}}, role]
        book = [{**play, "tasks": tasks}, *([{**play, "tasks": [proof, *tasks[3:]]}] * (plays - 1))]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(self._inventory), encoding="utf-8")
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_ACTION_PLUGINS": str(HERE.parent / "action"),
            "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "drivers_of_tests,gpufleet.baremetal.host_tasks",
            "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "connection"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"),
            "GPUFLEET_HOST_TASKS_PATH": str(self.folder / "host_tasks.json"),
        }
        with self._lives():
            done = playbook.run(["-v", "-i", "hosts.yml", "play.yml"], cwd=self.folder, env=env, timeout=240)
        self.output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, self.output[-6000:]
        counted: dict[str, Any] = json.loads((self.folder / "host_tasks.json").read_text())["hosts"]
        return counted

    def begun(self) -> dict[str, str]:
        """The id of the newest deployment, by host."""
        asked = "SELECT nodes.name, data FROM events JOIN nodes USING (node_id) WHERE kind = 'state' ORDER BY id"
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            return {name: json.loads(data).get("deploy_id", "") for name, data in ledger.execute(asked)}

    def old(self, site: Any, native: str) -> None:
        """Once all machines have come so far, minutes have passed since they were seen drained."""
        if not self.aged and all(_is(site, machine.name, native) for machine in self.machines):
            with sqlite3.connect(self.folder / "ledger.sqlite", timeout=30) as ledger:
                ledger.execute("DROP TRIGGER IF EXISTS events_update")
                self.aged = ledger.execute("UPDATE events SET at = at - 120 WHERE kind = 'evidence'").rowcount

    @contextlib.contextmanager
    def _lives(self) -> Iterator[None]:
        over = threading.Event()

        def turn() -> None:
            while not over.is_set():
                for machine in self.machines:
                    machine.live()
                self.meanwhile()
                time.sleep(0.05)

        thread = threading.Thread(target=turn, daemon=True)
        thread.start()
        yield
        over.set()
        thread.join()


def _is(site: Any, name: str, native: str) -> bool:
    with contextlib.suppress(KeyError):  # nobody has enrolled it yet
        return bool(site.native(name) == native)
    return False


@contextlib.contextmanager
def room(site: Any, folder: Path, count: int = 2) -> Iterator[Room]:
    authority = Authority(folder / "tls")
    with site.in_good_health(), contextlib.ExitStack() as stack:
        machines = [Machine(site, site.new(), folder, authority) for _number in range(count)]
        for machine in machines:
            stack.enter_context(machine)
        yield Room(folder, machines, authority.path, site.image())


@pytest.mark.parametrize("prove", ["auto", "boot"])
def test_the_role_boots_what_its_provisioner_does_not(booted_by_others: Any, tmp_path: Path, prove: str) -> None:
    """A driver to come as well: whether its machines are booted and then deployed, the role tells."""
    if prove != "auto" and booted_by_others.own_driver is None:
        not_applicable("how a boot is proven is no matter of the provisioner: one of them is enough")
    with room(booted_by_others, tmp_path) as made:
        made.deploy(deploy_pxe_prove=prove)
        for machine in made.machines:
            assert machine.bmc.machine.boots == ["disk", "Pxe"], "one network boot each"
        booted_by_others.faults.forget()
        again = made.deploy(deploy_resume="{{ begun[inventory_hostname] }}", begun=made.begun())
        assert all(machine.bmc.machine.boots == ["disk", "Pxe"] for machine in made.machines), "and never again"
        assert booted_by_others.faults.writes == [] and len(again) == 2


def test_a_machine_that_an_earlier_run_deployed_and_that_is_silent_is_booted_once_more(
    imagectl_site: Any, tmp_path: Path
) -> None:
    """Its record says that it is deployed, and to deploy it anew would boot nobody."""
    with room(imagectl_site, tmp_path) as made:
        made.deploy()
        begun, hung = made.begun(), made.machines[0]
        hung.answers.unlink()
        imagectl_site.faults.forget()
        made.deploy(deploy_resume="{{ begun[inventory_hostname] }}", begun=begun, deploy_boot_timeout=4)
        assert [len(machine.bmc.machine.boots) for machine in made.machines] == [3, 2] and hung.answers.exists()
        assert imagectl_site.faults.writes == [] and made.begun() == begun


def test_the_boot_is_permitted_although_the_batch_took_minutes_to_record(imagectl_site: Any, tmp_path: Path) -> None:
    with room(imagectl_site, tmp_path) as made:
        made.meanwhile = lambda: made.old(imagectl_site, "gold-1 ")
        made.deploy()
        assert made.aged > 0, "the evidence from before the deploy was too old when the machines were booted"
        assert all(machine.bmc.machine.boots == ["disk", "Pxe"] for machine in made.machines)


def test_a_machine_that_does_not_boot_from_the_network_is_not_deployed(imagectl_site: Any, tmp_path: Path) -> None:
    with room(imagectl_site, tmp_path) as made:
        deaf, good = made.machines
        deaf._site = _Deaf()
        made.deploy(ok=False, deploy_timeout=8)
        assert deaf.bmc.machine.boots == ["disk", "Pxe", "Pxe"], "twice, and not for ever"
        assert f"[{deaf.name}]: FAILED" in made.output and "Not deployed: still set after" in made.output
        assert f"[{good.name}]: FAILED" not in made.output
        assert imagectl_site.native(good.name) == "gold-1 running"


class _Deaf:
    """The network boot finds nobody who answers."""

    def boot(self, name: str) -> None:
        return None


class _Away:
    """The boot server is away when the machine boots for the first time."""

    def __init__(self, machine: Machine, site: Any) -> None:
        self._machine, self._site = machine, site

    def boot(self, name: str) -> None:
        if self._machine.bmc.machine.boots.count("Pxe") > 1:
            self._site.boot(name)


@pytest.mark.parametrize("form", FORMS)
def test_a_machine_whose_boot_server_was_away_is_booted_once_more(
    imagectl_site: Any, tmp_path: Path, form: str
) -> None:
    """It waits for ever where it found nobody, and is as good as any other."""
    with room(imagectl_site, tmp_path) as made:
        made.form = form
        late, good = made.machines
        late._site = _Away(late, imagectl_site)
        made.deploy(deploy_timeout=8)
        assert late.bmc.machine.boots == ["disk", "Pxe", "Pxe"] and good.bmc.machine.boots == ["disk", "Pxe"]
        assert imagectl_site.native(late.name) == "gold-1 running"
        assert len(late.bmc.writes) == 2 * len(good.bmc.writes), "the second boot is proven as the first"


def test_a_boot_that_is_not_proven_is_tried_once_more(imagectl_site: Any, tmp_path: Path) -> None:
    """Its own word is asked for: where it hung at its network boot it says nothing."""
    with room(imagectl_site, tmp_path) as made:
        late, good = made.machines
        late.mute = 1
        made.deploy(deploy_pxe_prove="boot", deploy_pxe_timeout=6)
        assert late.bmc.machine.boots == ["disk", "Pxe", "Pxe"] and good.bmc.machine.boots == ["disk", "Pxe"]


@pytest.mark.parametrize("form", FORMS)
def test_a_machine_that_is_deployed_and_silent_is_deployed_once_more(maas_site: Any, tmp_path: Path, form: str) -> None:
    """And one that stays so is not: the other answers at once, and is deployed once."""
    orders = functools.partial(ordered, maas_site)
    with room(maas_site, tmp_path, 3) as made:
        made.form = form
        late, dead, good = made.machines
        for machine in (late, dead):
            machine.answers.unlink()
        made.meanwhile = lambda: late._say() if orders(late) > 1 else None
        made.deploy(ok=False, deploy_boot_timeout=4)
        assert [orders(machine) for machine in made.machines] == [2, 2, 1]
        assert f"[{dead.name}]: FAILED" in made.output and "it does not answer" in made.output
        assert f"[{late.name}]: FAILED" not in made.output and f"[{good.name}]: FAILED" not in made.output
        assert set(made.begun()) == {late.name, dead.name, good.name}


def ordered(site: Any, machine: Machine) -> int:
    ids = [one.system_id for one in site.server.store.machines.values() if one.hostname == machine.name]
    return sum("op=deploy" in str(line) and ids[0] in str(line) for line in site.faults.writes if ids)


def test_another_play_of_the_same_command_deploys_anew_what_was_silent_in_the_first(
    maas_site: Any, tmp_path: Path
) -> None:
    """As day 2 after day 0: what the first has registered of its second deployment stands in for none of the next."""
    with room(maas_site, tmp_path, 1) as made:
        made.form = "for_all.yml"
        [late] = made.machines
        late.answers.unlink()
        made.meanwhile = lambda: late._say() if ordered(maas_site, late) > 1 else None
        made.deploy(plays=2, deploy_boot_timeout=4)
        assert ordered(maas_site, late) == 3


#: No resolver knows it: whoever asks for the node there learns nothing of it.
NAMELESS = "a-row-of-a-typist.invalid"


def test_what_is_silent_for_a_reason_that_is_not_its_own_is_not_deployed_once_more(
    maas_site: Any, tmp_path: Path
) -> None:
    """Its address is misspelt: another deployment would wipe a healthy node, and find the same."""
    with room(maas_site, tmp_path, 1) as made:
        [lost] = made.machines
        made.hosts[lost.name]["ansible_host"] = NAMELESS
        made.deploy(ok=False, deploy_boot_timeout=2)
        assert sum("op=deploy" in str(line) for line in maas_site.faults.writes) == 1
        assert f"[{lost.name}]: FAILED" in made.output and "Stop here where that says nothing" in made.output


def test_what_is_silent_for_a_reason_that_is_not_its_own_is_not_booted_once_more(
    imagectl_site: Any, tmp_path: Path
) -> None:
    with room(imagectl_site, tmp_path, 1) as made:
        [lost] = made.machines
        made.hosts[lost.name]["ansible_host"] = NAMELESS
        made.deploy(ok=False, deploy_boot_timeout=2)
        assert lost.bmc.machine.boots == ["disk", "Pxe"]
        assert f"[{lost.name}]: FAILED" in made.output and "Stop here where that says nothing" in made.output


def test_a_boot_that_fails_for_a_reason_that_is_not_the_nodes_is_not_tried_once_more(
    imagectl_site: Any, tmp_path: Path
) -> None:
    """A BMC that lets us not in locks whoever asks twice."""
    with room(imagectl_site, tmp_path, 1) as made:
        [closed] = made.machines
        made.hosts[closed.name]["gpufleet_bmc_password"] = "not it"
        made.deploy(ok=False)
        assert (
            closed.bmc.machine.boots == ["disk"]
            and made.output.count("TASK [gpufleet.baremetal.deploy : Boot the") == 1
        )
        assert "Not booted from the network" in made.output


def test_where_the_provisioner_boots_no_task_is_added(maas_site: Any, tmp_path: Path) -> None:
    with room(maas_site, tmp_path) as made:
        counted = made.deploy()
        for machine in made.machines:
            assert machine.bmc.writes == [], "power belongs to the provisioner"
        # The second host runs none of the tasks for the batch: arguments, event, start, boot (skipped), a stop
        # (skipped), verdict.
        assert counted[made.machines[1].name]["by_role"]["gpufleet.baremetal.deploy"] == 6, counted
