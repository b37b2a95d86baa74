# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook import_servers: a list of a site's, and a provisioner that knows none of its servers yet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from suite import playbook

from .controller import COLLECTIONS
from .site_warewulf import WarewulfSite

pytestmark = pytest.mark.slow
SECRET = "hunter2-of-the-bmc"
LIST = (
    "Hostname;Service Tag;iDRAC IP;BMC User;Password Ref;PXE MAC\r\n"
    "new1;ABC0001;10.0.0.1;root;env:IMPORT_TEST_PW;5254.0077.0001\r\n"
    "new2;ABC0002;10.0.0.2;root;env:IMPORT_TEST_PW;52-54-00-77-00-02\r\n"
)


class Run:
    def __init__(self, folder: Path) -> None:
        self.site = WarewulfSite(folder)
        self.folder = folder
        self.list = folder / "delivery.csv"
        shared = {f"gpufleet_{key}": value for key, value in self.site.connection().items()}
        shared["gpufleet_ledger_url"] = f"sqlite:///{folder / 'ledger.sqlite'}"
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": shared}}), encoding="utf-8")

    def play(self, *argv: str, ok: bool = True, **said: str) -> str:
        said = {"import_servers_path": str(self.list), "import_servers_ask_bmc": "false", **said}
        more = [word for key, value in said.items() for word in ("-e", f"{key}={value}")]
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"),
            "IMPORT_TEST_PW": SECRET,
        }
        inventory = ["-i", str(self.folder / "hosts.yml")]
        done = playbook.run([*inventory, "gpufleet.baremetal.import_servers", *more, *argv], env=env)
        output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, output[-4000:]
        assert SECRET not in output
        return output

    def nodes(self) -> dict[str, Any]:
        return dict(self.site.server.conf.load()["nodes"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("import"))
    yield run
    run.site.close()


def test_a_list_is_enrolled_through_the_verb_that_enrols_or_not_at_all(run: Run) -> None:
    run.list.write_text(LIST.replace("ABC0002", "4.02E+11"), encoding="utf-8")
    output = run.play("-v", ok=False, import_servers="enrol")
    assert "delivery.csv:3:2: serial" in output and not run.nodes()

    run.list.write_text(LIST, encoding="utf-8")
    foretold = run.play("--check", "--diff", import_servers="enrol")
    assert '"hwaddr": "52:54:00:77:00:02"' in foretold and not run.nodes()

    run.play(import_servers="enrol")
    assert sorted(run.nodes()) == ["new1", "new2"]
    one = run.site.record("new1")
    assert one["network devices"]["default"]["hwaddr"] == "52:54:00:77:00:01"
    assert one["tags"]["gpufleet-serial"] == "ABC0001"
    again = run.play(import_servers="enrol")
    assert "changed=0" in again and "changed=1" not in again


def test_what_is_enrolled_needs_no_image_at_the_provisioner_yet(run: Run) -> None:
    """Servers come before the image that they are to run, which the inventory names for all of them."""
    run.list.write_text(
        LIST.replace("new", "early").replace("ABC0", "ABD0").replace(".0077.", ".0078.").replace("-00-77-", "-00-78-"),
        encoding="utf-8",
    )
    for number, image in enumerate(({**run.site.image(), "named": "not-there-yet"}, {"name": "x"})):
        said = yaml.safe_dump({"gpufleet_image": image})
        (run.folder / "image.yml").write_text(said, encoding="utf-8")
        output = run.play("-e", f"@{run.folder / 'image.yml'}", import_servers="enrol")
        assert ("changed=1" in output) == (number == 0), output[-2000:]
    assert {"early1", "early2"} <= set(run.nodes())


def test_the_mac_of_replaced_hardware_comes_into_the_record_of_a_node_at_rest(run: Run) -> None:
    run.list.write_text(LIST, encoding="utf-8")
    run.play(import_servers="enrol")
    run.list.write_text(LIST.replace("5254.0077.0001", "5254.0077.0009"), encoding="utf-8")
    run.play(import_servers="enrol")
    assert run.site.record("new1")["network devices"]["default"]["hwaddr"] == "52:54:00:77:00:09"


def test_without_a_word_it_only_reports_and_a_limit_is_no_list(run: Run) -> None:
    run.list.write_text(LIST.replace("new1", "new3"), encoding="utf-8")
    assert "2 server(s), no mistake" in run.play() and "new3" not in run.nodes()
    assert "leave --limit out" in run.play("--limit", "new3", ok=False)


def test_the_inventory_says_which_places_of_secrets_a_list_may_name(run: Run) -> None:
    run.list.write_text(LIST, encoding="utf-8")
    places = run.folder / "group_vars" / "all.yml"
    places.parent.mkdir()
    places.write_text('import_servers_password_refs: ["env:OTHER_*"]\n', encoding="utf-8")
    assert "is no place that password_refs permits" in run.play(ok=False)
    places.write_text('import_servers_password_refs: ["env:IMPORT_TEST_*"]\n', encoding="utf-8")
    assert "2 server(s), no mistake" in run.play()
    places.unlink()


def test_in_a_job_of_a_controller_a_list_is_one_of_its_project(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it lies what the credentials of the job gave it, which a title that is refused would tell."""
    job = run.folder / "runner"
    (job / "project").mkdir(parents=True)
    (job / "artifacts").mkdir()
    command = job / "artifacts" / "command"
    command.write_text(f'{{"env": {{"GPUFLEET_BMC_PASSWORD": "{SECRET}"}}}}', encoding="utf-8")
    (job / "project" / "servers.csv").write_text(LIST, encoding="utf-8")
    (job / "project" / "linked.csv").symlink_to(command)
    monkeypatch.setenv("AWX_JOB_ID", "812")
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", str(job))
    for path in (command, job / "project" / "linked.csv", job / "project" / ".." / "artifacts" / "command"):
        said = run.play(ok=False, import_servers_path=str(path), import_servers_delimiter="|")
        assert "reads no list of servers but one of its project" in " ".join(said.split())
        assert f"a file below {job}/project" in " ".join(said.split())
    assert "2 server(s), no mistake" in run.play(import_servers_path=str(job / "project" / "servers.csv"))


def test_in_the_container_of_a_job_the_project_is_called_as_it_is_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWX names the folder that it gives to the container, and which is not there inside of it."""
    run.list.write_text(LIST, encoding="utf-8")
    monkeypatch.setenv("AWX_JOB_ID", "812")
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", "/tmp/awx_812_k3x9")
    said = " ".join(run.play(ok=False).split())
    assert "a file below /runner/project, " in said and "awx_812" not in said


def test_a_path_tells_nothing_of_the_environment_in_which_it_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has its secrets there, and an error names the file that it is about."""
    monkeypatch.setenv("HOME", str(run.folder))
    run.list.write_text(LIST, encoding="utf-8")
    assert "2 server(s), no mistake" in run.play(import_servers_path="~/delivery.csv")
    for controller in ("", "812"):
        monkeypatch.setenv("AWX_JOB_ID", controller)
        for path in ("$IMPORT_TEST_PW", "${IMPORT_TEST_PW}", "~/$IMPORT_TEST_PW", "/runner/project/$IMPORT_TEST_PW"):
            said = run.play(ok=False, import_servers_path=path)
            assert path.replace("~", str(run.folder)) in "".join(said.split()), said
