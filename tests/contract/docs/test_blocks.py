# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader with a fresh machine and the built artifact types what the pages print, in the order of a first week.

The machine is a root of layers with processes, a name, a home and a network of its own. It has ansible-core, what the
collection's metadata declares, and a Slurm that is a file; the paths are those of the pages. A block that is not run
says why, in a comment before it.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import passports
import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import digest_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from contract.docs.blocks import ON_THE_RACK, RACK, README, ROOT, UPGRADE, WITH_SSHD, Block, blocks, pages
from contract.docs.declared import artifact, environment
from contract.node.in_service import proven
from suite.container import Container
from unit.scheduler import slurm_commands

LEDGER, PASSPORT = "docs/how-to/look-after-the-ledger.md", "docs/how-to/verify-a-passport.md"
RENEW, FLEET, KEPT = "docs/how-to/renew-passports.md", "docs/how-to/see-the-fleet.md", "docs/how-to/maintenance.md"
SLOW, FOLLOW, AWX = "docs/how-to/find-slow-nodes.md", "docs/how-to/follow-a-run.md", "docs/how-to/use-with-awx.md"
PORTS, CPUS = "docs/how-to/judge-ports.md", "docs/how-to/judge-cpus-and-memory.md"
#: What else a reader has: a key for images, a name for commits, and a node's ports and memory controllers, whose files
#: no other machine's kernel shows.
HAS = """gpg -q --batch --passphrase '' --quick-generate-key images@example.com ed25519 default never 2>/dev/null
git config --global user.name Reader && git config --global user.email reader@example.com
cd /sys && mkdir -p class/infiniband/mlx5_0/ports/1 class/net/eth0 devices/system/edac/mc/mc0 devices/system/cpu
for name in state phys_state rate link_layer; do echo '4: ACTIVE' >class/infiniband/mlx5_0/ports/1/$name; done
for name in operstate speed; do echo up >class/net/eth0/$name; done
echo 0-1 >devices/system/cpu/possible
"""
REPLACED, WAVES = "docs/how-to/replaced-hardware.md", "docs/how-to/recycle-in-waves.md"
#: The first day: what is installed and written down. README's order, with the keys before they are named.
FIRST_DAY: list[Any] = [
    *((README, 2), (README, 3), (README, 4), (RACK, 0), (README, 6), (README, 7)),
    HAS,
    *((RACK, 1), (AWX, 1), (PORTS, 0), (CPUS, 0)),
]
#: Any day after it, when gpu017 is in service. A text of the test's own is what has happened meanwhile.
ANY_DAY: list[Any] = [
    *(
        (FLEET, 0),
        (FLEET, 1),
        (FLEET, 4),
        (FLEET, 5),
        (FLEET, 6),
        (SLOW, 0),
        (SLOW, 1),
        (REPLACED, 0),
        (RENEW, 0),
        (RENEW, 2),
    ),
    *((WAVES, 1), (WAVES, 4), (WAVES, 7), (WAVES, 8), (WAVES, 9)),
    "cp passports/gpu017.passport.json . && cp /etc/gpufleet/passport_ed25519.pub.pem passport.pub",
    *((PASSPORT, 0), (PASSPORT, 2), (LEDGER, 0), (LEDGER, 3), (UPGRADE, 0)),
    "rm /var/lib/gpufleet/ledger.sqlite*",
    (LEDGER, 1),
    "rm /var/lib/gpufleet/ledger.sqlite*",
    *((UPGRADE, 3), (FOLLOW, 0), (KEPT, 0), (KEPT, 1)),
]
RUN = [step for step in [*FIRST_DAY, *ANY_DAY] if not isinstance(step, str)]
#: Besides that each ends well: what a reader would look for.
SHOWS = {
    (README, 2): "gpufleet.baremetal:0.1.0 was installed successfully",
    (README, 7): "@rack12:",
    (FLEET, 0): "1 admitted",
    (FLEET, 4): "admitted",
    (FLEET, 5): "enrolled",
    (SLOW, 1): "0 slower, 0 like their peers, 4 not to be judged",
    (RENEW, 2): "gpu017",
    (PASSPORT, 0): '"machine_checked": false',
    (LEDGER, 1): '"done": "restore"',
    (UPGRADE, 3): '"done": "restore"',
    (AWX, 1): "The fleet",
    (PORTS, 0): "mlx5_0/ports/1/rate:4: ACTIVE",
    (CPUS, 0): "edac/mc/mc0",
    (WAVES, 1): "1 nodes in 1 waves",
    (WAVES, 7): "1 nodes in 1 waves",
    (WAVES, 8): "no wave begins: paused by root",
    (WAVES, 9): "resumed by root",
    (KEPT, 0): "kept by a person: disk swap, ticket 4711",
}
DRIVER = """
import json, pathlib, subprocess, sys
for number, step in enumerate(json.loads(pathlib.Path(sys.argv[1]).read_text())):
    if step["file"]:
        path = pathlib.Path(step["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step["text"])
        done = subprocess.CompletedProcess([], 0, "")
    else:
        told = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", step["text"]], **told)
    print(json.dumps([done.returncode, done.stdout]), flush=True)
"""


class Reader:
    """A reader's machine. What it keeps from day to day: a home, a folder to work in, and the folders of the pages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        kept = {"home": "/home/runner", "work": "/srv/fleet", "etc": "/etc/gpufleet", "var": "/var/lib/gpufleet"}
        kept.update(backups="/var/backups", slurm="/etc/slurm")
        self._kept = {folder / name: place for name, place in kept.items()}
        for one in self._kept:
            one.mkdir(mode=0o700)
        self.work, self.etc = folder / "work", folder / "etc"
        self.url = f"sqlite:///{folder}/var/ledger.sqlite"
        self._programs = environment(folder / "venv", ROOT / "meta" / "ee-requirements.txt")
        idle = {"state": "IDLE", "reason": "", "by": ""}
        nodes = {name: dict(idle) for name in ("gpu001", "gpu002", "gpu003", "gpu017")}
        self._world = slurm_commands.install(folder, nodes=nodes)
        self._idle = self._world.read_text(encoding="utf-8")
        (folder / "slurm" / "slurm.conf").touch()

    def types(self, steps: Sequence[Any]) -> dict[Any, tuple[int, str]]:
        """What came of each block, by page and number."""
        told = [_step(one) for one in steps]
        self._world.write_text(self._idle, encoding="utf-8")  # Slurm's own machine is no part of a reader's
        (self._folder / "steps.json").write_text(json.dumps(told), encoding="utf-8")
        command = [str(self._programs / "python"), "-c", DRIVER, str(self._folder / "steps.json")]
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        env = {
            "PATH": f"{self._programs}:{self._folder / 'bin'}:{system}", "LC_ALL": "C.UTF-8", "COLUMNS": "160",
            "BMC_PASSWORD": "of-the-bmc", "IRONIC_PASSWORD": "of-ironic",
        }  # fmt: skip
        layers = self._folder / f"layers-{uuid.uuid4().hex}"
        machine = Container("controller", layers, self._kept, mark="")
        code, output = machine.run(["sh", "-c", 'cd /srv/fleet && exec "$@"', "sh", *command], env)
        assert code == 0, output
        return {one: tuple(json.loads(line)) for one, line in zip(steps, output.splitlines(), strict=True)}

    def has_enrolled(self, name: str, serial: str) -> None:
        with Ledger(self.url) as ledger:
            node = ledger.identify(name, aliases=[("serial", serial)])
            ledger.append("day0", [(node, Event("state", "enrolled"))])

    def has_admitted(self, name: str, serial: str) -> None:
        """What a day 0 leaves in the ledger, with a passport that the reader's key has signed."""
        key = str(self.etc / "passport_ed25519.pem")
        public = (self.etc / "passport_ed25519.pub.pem").read_text(encoding="utf-8")
        declared = yaml.safe_load(blocks(README)[6].text)["gpufleet_image"]
        image = {**passports.IMAGE, **{name: declared[name] for name in ("name", "version", "sha256")}}
        found = passports.evidence()
        found["verdicts"][0]["data"]["image"] = image
        with Ledger(self.url) as ledger:
            node = ledger.identify(name, aliases=[("serial", serial)])
            found["node"] = {"id": node, "name": name}
            issued = passports.issue(key, public_keys=[public], evidence=found)
            told = [Event("state", "enrolled"), Event("state", "imaging", {"deploy_id": "d-1"})]
            *_before, imaged = ledger.append("day0", [(node, event) for event in told])
            ledger.append("day0", [(node, proven("d-1", imaged))])
            envelope = issued["envelope"]
            when = {name: seconds(issued["passport"][name]) for name in ("issued", "expires")}
            ledger.save_passport("day0", node, **when, digest=digest_of(envelope), envelope=envelope)
            ledger.append("day0", [(node, Event("state", "admitted"))])


def _step(one: Any) -> dict[str, str]:
    block = None if isinstance(one, str) else blocks(one[0])[one[1]]
    return {"file": block.file if block else "", "text": _typed(block) if block else one}


def _typed(block: Block) -> str:
    return block.text if block.file else block.commands


@pytest.fixture(scope="module")
def came_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Any, tuple[int, str]]]:
    """What came of each block that is run."""
    built = artifact(tmp_path_factory.mktemp("built"))
    reader = Reader(tmp_path_factory.mktemp("reader"))
    shutil.copy(built, reader.work)
    told = reader.types(FIRST_DAY)
    assert told[RACK, 0][0] == 0, told[RACK, 0][1]
    with open(reader.work / "servers.csv", "a", encoding="utf-8") as servers:
        servers.write(
            "gpu017,S4X0017K,rack14,h100-sxm-8,10.20.14.1,ipmi,ansible,env:BMC_PASSWORD,7c:c2:55:10:20:17,,\n"
        )
    reader.has_enrolled("gpu001", "S4X0012K")
    reader.has_admitted("gpu017", "S4X0017K")
    yield {**told, **reader.types(ANY_DAY)}


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("step", RUN, ids=lambda step: f"{step[0]} {step[1]}")
def test_what_a_page_prints_works_as_it_is_typed(came_of: dict[Any, tuple[int, str]], step: tuple[str, int]) -> None:
    code, output = came_of[step]
    assert code == 0, f"{step}: {output}"
    assert SHOWS.get(step, "") in output, output


@pytest.mark.slow
@pytest.mark.needs_root
def test_what_happens_between_the_blocks_happens(came_of: dict[Any, tuple[int, str]]) -> None:
    steps = {step for step in [*FIRST_DAY, *ANY_DAY] if isinstance(step, str)}
    assert {step: came_of[step] for step in steps} == dict.fromkeys(steps, (0, ""))


@pytest.mark.slow
@pytest.mark.needs_root
def test_progress_is_shown_in_the_place_of_each_task_once_a_page_has_said_so(
    came_of: dict[Any, tuple[int, str]],
) -> None:
    assert "PLAY RECAP" in came_of[UPGRADE, 3][1] and "PLAY RECAP" not in came_of[KEPT, 0][1], came_of[KEPT, 0][1]


@pytest.mark.parametrize("page", pages())
def test_each_block_of_a_page_is_run_or_says_why_not(page: str) -> None:
    """And none that is run says that it is not."""
    for block in blocks(page):
        run = (page, block.number) in [*RUN, *ON_THE_RACK, *WITH_SSHD]
        assert run != bool(block.not_run), f"{block}: run it, or say <!-- not run: why -->"
        assert "not run" not in block.not_run, f"{block}: that is no reason"
        for named in re.findall(r"tests/[\w/]+\.py", block.not_run):
            assert (ROOT / named).is_file(), f"{block}: there is no {named}"


def test_a_block_is_what_stands_between_its_fences() -> None:
    """Whoever changes a page finds this test, and not an empty list."""
    found = blocks(FLEET)
    assert found[0].commands == "ansible-playbook gpufleet.baremetal.status -i fleet.yml\n"
    assert [one.file for one in blocks(README) if one.file] == [
        "fleet.yml",
        "servers.csv",
        "fleet.yml",
        "group_vars/all.yml",
    ]
    assert sum(len(blocks(page)) for page in pages()) > 50
