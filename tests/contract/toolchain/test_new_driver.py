# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make new-driver`` in a copy of the tree: what it writes, what is then told, and what the suite takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract.toolchain.begun import GATE, ROOT, SITE, UTILS, Copy, written_gate

#: Each test starts what a person would start, some of them pytest over a whole suite.
pytestmark = pytest.mark.slow

LEADS = "LEADS: dict[str, tuple[str, ...]] = {\n"
PORTS = ("bmc", "provisioner", "scheduler", "gate")
#: For each port one thing that its contract asks of a driver, one that the suite asks of its adapter, and a page.
TOLD = {
    "bmc": ("acme/power.py", "tests/contract/bmc/site_acme.py", "the choices of bmc_protocol lack acme"),
    "provisioner": (
        "acme/driver.py",
        "tests/contract/provisioner/site_acme.py",
        "undeployable: What this provisioner cannot deploy",
        "fails_to_deploy: The deployment of this node",
        "the row of gpufleet_provisioner lacks acme",
    ),
    "scheduler": ("acme/driver.py", "tests/contract/scheduler/site_acme.py", "## scheduler: no row for acme"),
    "gate": ("acme/gate.py", "plugins/modules/acme_gate.py", "## gate: no row for acme", "gates.md: no part on"),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy in which a driver was begun for each port."""
    copy = Copy(tmp_path_factory.mktemp("copy"))
    for port in PORTS:
        done = copy.begin(port)
        assert done.returncode == 0, done.stderr
        assert f"make try-driver PORT={port} NAME=acme" in done.stdout
    return copy


@pytest.mark.parametrize("port", PORTS)
def test_each_thing_that_is_missing_is_one_readable_line(begun: Copy, port: str) -> None:
    lines = begun.told(port)
    assert len(lines) > 6 and len(set(lines)) == len(lines)
    for part in TOLD[port]:
        assert any(part in line for line in lines), f"{part} in {lines}"
    assert all(len(line) < 200 and "Traceback" not in line and ": " in line for line in lines)


@pytest.mark.parametrize("port", PORTS)
def test_what_is_written_holds_the_rules_for_code(begun: Copy, port: str) -> None:
    files = [str(path) for path in begun.root.rglob("*acme*") if "__pycache__" not in path.parts]
    assert files
    done = begun.run("-m", "ruff", "check", "--quiet", *files)
    assert done.returncode == 0, done.stdout
    done = begun.run("-m", "ruff", "format", "--check", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_suite_tells_it_and_leaves_what_is_not_whole_out(begun: Copy) -> None:
    done = begun.run("-m", "pytest", "-q", "tests/contract/test_newcomers.py", "-k", "scheduler")
    told = [line for line in done.stdout.splitlines() if line.startswith("scheduler ")]
    assert told == [f"scheduler acme: {line}" for line in begun.told("scheduler")], done.stdout
    assert "[scheduler-acme]" in done.stdout and " 1 failed" in f" {done.stdout.splitlines()[-1]}", done.stdout
    listed = begun.run("-m", "pytest", "-q", "--collect-only", *(f"tests/contract/{port}" for port in PORTS))
    assert listed.returncode == 0 and "acme" not in listed.stdout, listed.stdout[-2000:]


@pytest.mark.parametrize(
    ("port", "name", "why"),
    [
        ("scheduler", "slurm", "is there already"),
        ("bmc", "Acme", "cannot be the name"),
        ("bmc", "a-b", "cannot be the name"),
        ("bmc", "class", "cannot be the name"),
        ("scheduler", "contract", "contract.py is there already"),
        ("provisioner", "command_line", "command_line is there already"),
        ("fabric", "acme", "invalid choice"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_written(begun: Copy, port: str, name: str, why: str) -> None:
    before = sorted(begun.root.rglob("*.py"))
    done = begun.begin(port, name)
    assert done.returncode != 0 and why in done.stderr, done.stderr
    assert sorted(begun.root.rglob("*.py")) == before


def test_who_asks_for_a_port_or_driver_that_is_not_there_is_told_those_that_are(begun: Copy) -> None:
    for asked, words in (
        (("fabric", "acme"), "there is no port fabric; the ports are bmc, gate, provisioner, scheduler"),
        (
            ("scheduler", "acne"),
            "there is no driver acne in the port scheduler, which has slurm, kubernetes, none, acme",
        ),
    ):
        done = begun.run("tests/contract/newcomers.py", *asked)
        assert done.returncode == 2 and words in done.stdout, done.stdout + done.stderr


@pytest.fixture
def whole(tmp_path: Path) -> Any:
    """A driver that was begun and then written: that of the tests' own scheduler, under another name."""
    copy = Copy(tmp_path)
    assert copy.begin("scheduler").returncode == 0
    own = (ROOT / "tests/contract/scheduler/versioned/driver.py").read_text(encoding="utf-8")
    driver = copy.root / UTILS / "_scheduler" / "acme" / "driver.py"
    driver.write_text(own.replace('"versioned"', '"acme"').replace("Versioned", "Acme"), encoding="utf-8")
    names = copy.root / UTILS / "_scheduler" / "names.py"  # the option of an address that this driver reads
    given = names.read_text(encoding="utf-8").replace('"acme": (),', '"acme": ("scheduler_url",),')
    names.write_text(given, encoding="utf-8")
    site = copy.root / "tests" / "contract" / "scheduler" / "site_acme.py"
    head = "".join(own.splitlines(keepends=True)[:3])
    site.write_text(
        f"{head}from contract.scheduler.schedulers import VersionedSite\n"
        "from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.acme.driver import Acme\n\n\n"
        "class AcmeSite(VersionedSite):\n    driver = Acme\n",
        encoding="utf-8",
    )
    return copy


def test_what_is_whole_is_one_line_of_the_list_a_row_and_a_choice_from_the_suite(whole: Copy) -> None:
    left = whole.told("scheduler")
    assert sorted(line.partition(":")[0].partition(",")[0] for line in left) == [
        "README.md",
        "docs/reference/drivers.md",
        "docs/reference/host-variables.md",
        "plugins/doc_fragments/scheduler.py",
        f"{UTILS}/_scheduler/names.py",
        "tests/mutants/scheduler.yml",
    ]
    kept = f"- path: {UTILS}/_scheduler/acme/driver.py\n  tests: [tests/tree]\n"
    for nothing in (f"# {UTILS}/_scheduler/acme/driver.py\n", kept, f"{kept}  mutations: []\n"):
        with_nothing = (
            (ROOT / "tests/mutants/scheduler.yml").read_text(encoding="utf-8").replace("---\n", f"---\n{nothing}", 1)
        )
        (whole.root / "tests/mutants/scheduler.yml").write_text(with_nothing, encoding="utf-8")
        assert any("no broken line" in line for line in whole.told("scheduler")), f"N8: {nothing} keeps nothing"
    whole.edit("tests/mutants/scheduler.yml", nothing, f"{kept}  mutations: [{{why: a, old: b, new: c}}]\n")
    whole.edit(
        "docs/reference/drivers.md", "| `none` |", "| `acme` | its web service | `gpufleet_scheduler_url` |\n| `none` |"
    )
    whole.edit(f"{UTILS}/_scheduler/names.py", LEADS, f'{LEADS}    "acme": ("scheduler_url",),\n')
    whole.edit("README.md", ", Kubernetes, or none |", ", Kubernetes, Acme, or none |")
    whole.edit("docs/reference/host-variables.md", "`kubernetes` or `none`", "`kubernetes`, `acme` or `none`")
    whole.edit("plugins/doc_fragments/scheduler.py", "[slurm, kubernetes, none]", "[slurm, kubernetes, none, acme]")
    assert whole.told("scheduler") == ["scheduler acme: nothing is missing"]
    done = whole.run("-m", "pytest", "-q", "tests/contract/scheduler/test_contract.py", "-k", "acme")
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout[-3000:]


#: A file of a driver, what is done to it, and the one line that is told of it.
SLIPS = {
    "a syntax error": (
        f"{UTILS}/_scheduler/acme/driver.py",
        "def oops(:\n",
        "acme/driver.py:1: Python cannot read it: invalid syntax",
    ),
    "a text cut by hand": (
        f"{UTILS}/_scheduler/acme/driver.py",
        "SEEN = __doc__[:200]\n",
        "acme/driver.py:1: a text is cut here, and not in _excerpt.py",
    ),
}


@pytest.mark.parametrize("name", SLIPS)
def test_n9_n10_a_slip_in_a_driver_is_one_line_with_its_place(begun: Copy, name: str) -> None:
    file, line, told = SLIPS[name]
    before = (begun.root / file).read_text(encoding="utf-8")
    (begun.root / file).write_text(line + before, encoding="utf-8")
    try:
        done = begun.run("tests/contract/newcomers.py", "scheduler", "acme")
    finally:
        (begun.root / file).write_text(before, encoding="utf-8")
    assert done.returncode == 1 and done.stderr == "", done.stderr
    assert sum(told in one for one in done.stdout.splitlines()) == 1, done.stdout


#: What names a driver and is no adapter of it, one after another in one file.
MENTIONS = (
    '# "acme" is what this will be\n',
    'NAMES = {"acme"}\n',
    f"from {UTILS.replace('/', '.')}._provisioner.acme.driver import AcmeDriver\nUSED = AcmeDriver\n",
    'class AcmeSite:\n    name = "acme"\n\n\nSITES = [AcmeSite]\n',
    'from sites import Site\n\n\nclass NotTakenUp(Site):\n    name = "acme"\n',
)
NO_ADAPTER = "tests/contract/provisioner/site_acme.py: no adapter, so the suite cannot reach this driver"


def test_t5_a_mention_of_a_driver_is_no_adapter(begun: Copy) -> None:
    """A comment, a text in a test, an import, a class of another kind, a site that no suite takes up."""
    folder = begun.root / "tests" / "contract" / "provisioner"
    begin = (folder / "site_acme.py").read_text(encoding="utf-8")
    (folder / "site_acme.py").unlink()
    (folder / "sites_of_acme.py").write_text("".join(MENTIONS), encoding="utf-8")
    try:
        assert NO_ADAPTER in begun.told("provisioner")
        with open(folder / "sites_of_acme.py", "a", encoding="utf-8") as file:
            file.write('from sites import Site\n\n\nclass Own(Site):\n    name = "acme"\n\n\nTAKEN = (Own,)\n')
        assert NO_ADAPTER not in begun.told("provisioner"), "a site that is taken up is one"
    finally:
        (folder / "sites_of_acme.py").unlink()
        (folder / "site_acme.py").write_text(begin, encoding="utf-8")


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A gate that was begun and then written as the guide says, and not a line more."""
    return written_gate(tmp_path_factory.mktemp("gate"))


def suite(copy: Copy) -> tuple[int, list[str], str]:
    done = copy.run("-m", "pytest", "-q", "--tb=short", "tests/contract/gate", "-k", "acme")
    failed = [line.split("::")[1].split(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return done.returncode, failed, done.stdout


def test_a_gate_by_the_guide_is_recorded_and_permitted_before_it_loads_the_gpus(gate: Copy) -> None:
    code, failed, output = suite(gate)
    assert (code, failed) == (0, []) and "passed" in output, output[-4000:]


#: A line of the gate, what stands there instead, and the tests of the suite that notice it.
CARELESS = {
    "how the tool ended": (
        "    record_end(sheet, done)\n",
        "",
        "test_a_perfect_output_is_no_pass_whatever_ended_the_tool",
    ),
    "a GPU too many": (
        """        if not sheet.wants("acme", gpu):
            sheet.unsettled("acme", gpu, f"nobody asked for {line}")
            continue
""",
        "",
        "test_another_number_of_gpus_is_no_pass",
    ),
}


@pytest.mark.parametrize("name", CARELESS)
def test_n2_a_gate_that_does_not_look_at_it_is_not_taken(gate: Copy, name: str) -> None:
    old, new, noticed = CARELESS[name]
    before = (gate.root / GATE).read_text(encoding="utf-8")
    gate.edit(GATE, old, new)
    try:
        done = gate.run(
            "-m", "pytest", "-q", "--tb=no", "tests/contract/gate/test_contract.py", "-k", f"acme and {noticed}"
        )
    finally:
        (gate.root / GATE).write_text(before, encoding="utf-8")
    assert done.returncode == 1 and noticed in done.stdout, done.stdout[-3000:]


def test_n10_cases_for_case_is_one_line_with_its_place(gate: Copy) -> None:
    gate.edit(SITE, "CASE = Case(", "CASES = Case(")
    try:
        told = gate.told("gate")
        listed = gate.run("-m", "pytest", "-q", "--collect-only", "tests/contract/gate/test_contract.py")
    finally:
        gate.edit(SITE, "CASES = Case(", "CASE = Case(")
    assert [line for line in told if SITE in line and "named CASE: here is CASES" in line], told
    assert listed.returncode == 0 and "acme" not in listed.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("bare"))


def state(copy: Copy) -> dict[str, bytes]:
    """Every file and folder but those that Python makes for itself."""
    found = (path for folder in ("make", "meta", "plugins", "tests") for path in (copy.root / folder).rglob("*"))
    return {
        str(path): path.read_bytes() if path.is_file() else b"" for path in found if "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("port", PORTS)
def test_what_was_begun_is_taken_back_whole(bare: Copy, port: str) -> None:
    before = state(bare)
    assert bare.begin(port).returncode == 0 and len(bare.told(port)) > 6, "what Python compiled meanwhile goes too"
    assert state(bare) != before
    done = bare.run("make/new_driver.py", port, "acme", "--remove")
    assert done.returncode == 0 and "names.py" in done.stdout, done.stderr
    assert state(bare) == before


PACKAGE = f"{UTILS}/_scheduler/acme"
#: What a writer has done since, and what is told of it.
TOUCHED = {
    "a file": (f"{PACKAGE}/driver.py", lambda text: text + "# mine\n", f"{PACKAGE}/driver.py: changed since"),
    "a file too many": (f"{PACKAGE}/text.py", lambda text: "# mine\n", f"{PACKAGE}/text.py: not from here"),
    "a file too few": ("tests/contract/scheduler/site_acme.py", None, "site_acme.py: not there"),
    "a line of a list": (f"{UTILS}/_scheduler/names.py", lambda text: text.replace('"acme": ()', '"acme": ("a",)'),
                         "_scheduler/names.py: not one line"),
    "a line too few": (f"{UTILS}/_scheduler/registry.py", lambda text: text.replace('    "acme": Acme,\n', ""),
                       'registry.py: not one line "acme": Acme,'),
}  # fmt: skip


@pytest.mark.parametrize("name", TOUCHED)
def test_what_was_changed_since_is_named_and_nothing_taken_back(bare: Copy, name: str) -> None:
    file, change, told = TOUCHED[name]
    path = bare.root / file
    assert bare.begin("scheduler").returncode == 0
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if change is None:
        path.unlink()
    else:
        assert change(text) != text
        path.write_text(change(text), encoding="utf-8")
    touched = state(bare)
    done = bare.run("make/new_driver.py", "scheduler", "acme", "--remove")
    assert done.returncode != 0 and told in done.stderr and "nothing was removed" in done.stderr, done.stderr
    assert state(bare) == touched
    if text:
        path.write_text(text, encoding="utf-8")
    else:
        path.unlink()
    assert bare.run("make/new_driver.py", "scheduler", "acme", "--remove").returncode == 0


@pytest.mark.parametrize(("port", "name"), [("scheduler", "slurm"), ("gate", "dcgm"), ("bmc", "never")])
def test_what_was_never_begun_is_not_taken_back(bare: Copy, port: str, name: str) -> None:
    before = state(bare)
    done = bare.run("make/new_driver.py", port, name, "--remove")
    assert done.returncode != 0 and "nothing was removed" in done.stderr, done.stderr
    assert state(bare) == before
