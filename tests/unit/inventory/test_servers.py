# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server lists as sites have them, and the clean list that comes of them, through the action as a worker runs it."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.template import is_trusted_as_template
from ansible_collections.gpufleet.baremetal.plugins.action import servers_import
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _servers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins"))
from doors import Door

PASSWORD = "hunter2!"
#: As a vendor's portal and a German spreadsheet write it.
DELIVERY = (
    "\ufeffsep=;\r\n"
    "Hostname;Service Tag;SKU;iDRAC IP;BMC User;Password Ref;PXE MAC;OOB MAC;GPUs;Cooling\r\n"
    "gpu001;abc0001;h100-sxm-8;10.0.0.1;root;env:BMC_PW;5254.0077.0001;52-54-00-77-01-01;8;west, cold\r\n"
    ";;;;;;;;;\r\n"
    "# the next two come in May\r\n"
    "gpu002;ABC0002;h100-sxm-8;10.0.0.2;root;env:BMC_PW;525400770002;;8;\r\n"
)
FLEET = "name,serial,bmc_ip,rack,boot_mac\ngpu001,ABC0001,10.0.0.9,r12,52:54:00:77:00:01\nold1,ABC0100,10.0.0.100,r1,\n"


class Imports:
    """Tasks of localhost."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.list = folder / "delivery.csv"
        self.dest = folder / "servers.csv"

    def task(self, content: str | bytes = DELIVERY, **options: Any) -> dict[str, Any]:
        self.list.write_bytes(content if isinstance(content, bytes) else content.encode())
        said = {key: options.pop(key) for key in ("check_mode", "diff", "hostvars") if key in options}
        door = Door(
            self.folder,
            lambda *_: None,
            base=servers_import.ActionModule,
            name="servers_import",
            own_spec=servers_import.SPEC,
            args={"path": str(self.list), **options},
            inventory_hostname="localhost",
            **said,
        )
        return door.run()

    def written(self, content: str | bytes = DELIVERY, **options: Any) -> dict[str, Any]:
        return self.task(content, dest=str(self.dest), **options)

    def refused(self, content: str | bytes, **options: Any) -> tuple[str, list[str]]:
        """The message, and each mistake without the folder."""
        told = self.task(content, **options)
        assert told["failed"] and not told["changed"], told
        lines = [line.replace(f"{self.folder}/", "") for line in told["error"].get("mistakes", [])]
        return told["msg"].replace(f"{self.folder}/", ""), lines


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def test_a_list_as_a_site_has_it_in_one_spelling(imports: Imports) -> None:
    told = imports.task()
    assert not told.get("failed") and not told["changed"], told
    one, two = told["servers"]
    assert one["name"] == "gpu001" and one["where"] == f"{imports.list}:3" and two["where"] == f"{imports.list}:6"
    assert one["cells"] == {
        "name": "gpu001",
        "serial": "abc0001",
        "sku": "h100-sxm-8",
        "bmc_ip": "10.0.0.1",
        "bmc_user": "root",
        "bmc_password_ref": "env:BMC_PW",
        "boot_mac": "52:54:00:77:00:01",
        "bmc_mac": "52:54:00:77:01:01",
        "gpu_count": "8",
        "cooling": "west, cold",
    }
    assert two["cells"]["boot_mac"] == "52:54:00:77:00:02" and "bmc_mac" not in two["cells"]


def test_each_mistake_of_a_whole_list_is_told_at_once(imports: Imports) -> None:
    rows = [
        "gpu001,ABC0001,10.0.0.1,52:54:00:77:00:01",
        "gpu002,4.02E+11,10.0.0.2,52:54:00:77:00:02",
        "gpu003,03/04/2026,10.0.0.3,52:54:00:77:00:03",
        "gpu004,#N/A,10.0.0.4,52:54:00:77:00:04",
        "gpu005,To be filled by O.E.M.,10.0.0.5,52:54:00:77:00:05",
        "gpu006,abc0001,10.0.0.6,5254.0077.0001",
        "gpu007,ABC0007,10.0.0.300,54:00:77:00:07",
        "gpu008,=B7,10.0.0.8,52-54-00-77-00-08",
        "localhost,ABC0009,10.0.0.9,",
        "gpu010,,10.0.0.10,",
        "gpu011,2026-03-04,,525400770011",
        *(f"gpu{number},{number},,52:54:00:77:01:{number}" for number in range(30, 45)),
    ]
    message, mistakes = imports.refused("name,serial,bmc_ip,boot_mac\n" + "".join(f"{row}\n" for row in rows))
    places = [line.split(": ", 1)[0] for line in mistakes]
    assert sorted(places) == sorted(
        [f"delivery.csv:{line}:{column}" for line, column in
         [(3, 2), (4, 2), (5, 2), (6, 2), (7, 2), (7, 4), (8, 3), (8, 4), (9, 2), (10, 1), (11, 1), (12, 2)]]
    )  # fmt: skip
    assert "12 mistake(s)" in message
    words = "\n".join(mistakes)
    for reason in ("is a number that a spreadsheet made", "is a date that a spreadsheet made", "a spreadsheet's error",
                   "a spreadsheet's formula", "stands in line 2 already", "what a board says that has no serial",
                   "'localhost' cannot be the name of a host", "nothing tells which machine this is"):  # fmt: skip
        assert reason in words, reason
    assert not imports.dest.exists()


def test_more_mistakes_than_a_message_shows_are_all_there(imports: Imports) -> None:
    rows = "".join(f"gpu{number:03},1.{number}E+10,52:54:00:77:00:{number:02}\n" for number in range(30))
    message, mistakes = imports.refused("name,serial,boot_mac\n" + rows)
    assert len(mistakes) == 30 and "and 10 more" in message


def test_a_password_in_the_list_is_refused_and_not_shown(imports: Imports) -> None:
    row = f"gpu001,ABC0001,10.0.0.1,{PASSWORD}\n"
    for header in ("name,serial,bmc_ip,bmc_password_ref\n", "name,serial,bmc_ip,iDRAC password\n"):
        message, mistakes = imports.refused(header + row)
        assert "password" in message and PASSWORD not in message + str(mistakes)
    message, _mistakes = imports.refused(DELIVERY, password_refs=["env:OTHER_*"])
    assert "no place that password_refs permits" in message


def test_a_clean_list_is_written_whole_and_only_once(imports: Imports) -> None:
    foretold = imports.written(check_mode=True, diff=True)
    assert foretold["changed"] and not imports.dest.exists() and foretold["merged"]["new"] == ["gpu001", "gpu002"]
    done = imports.written(diff=True)
    assert done["changed"] and done["diff"] == foretold["diff"] and imports.dest.stat().st_mode & 0o777 == 0o644
    rows = list(csv.DictReader(imports.dest.open()))
    assert list(rows[0])[:-1] == [name for name in COLUMNS if name in rows[0]] and list(rows[0])[-1] == "cooling"
    assert rows[0]["boot_mac"] == "52:54:00:77:00:01" and rows[0]["cooling"] == "west, cold"
    assert not imports.written(diff=True)["changed"] and imports.written()["merged"]["same"] == ["gpu001", "gpu002"]


def test_a_delivery_is_added_to_the_list_of_the_fleet(imports: Imports) -> None:
    """A server is known again by its serial, whoever spelled it; a cell that the delivery leaves empty stays."""
    imports.dest.write_text(FLEET)
    imports.dest.chmod(0o640)
    done = imports.written(diff=True)
    columns = "serial bmc_ip sku bmc_user bmc_password_ref bmc_mac gpu_count cooling"
    assert done["merged"] == {
        "new": ["gpu002"],
        "changed": {"gpu001": columns.split()},
        "same": [],
        "kept": ["old1"],
        "removed": [],
    }
    assert done["diff"]["before"] == FLEET and "10.0.0.9" not in done["diff"]["after"]
    rows = {row["name"]: row for row in csv.DictReader(imports.dest.open())}
    assert rows["gpu001"]["rack"] == "r12" and rows["old1"]["bmc_ip"] == "10.0.0.100"
    assert imports.dest.stat().st_mode & 0o777 == 0o640
    assert imports.written(purge=True)["merged"]["removed"] == ["old1"] and "old1" not in imports.dest.read_text()


def test_what_parts_the_cells_is_told_in_words_and_refused_by_its_name(imports: Imports) -> None:
    told = imports.task(DELIVERY.replace("sep=;\r\n", "").replace(";", "\t"), delimiter="tab")
    assert [one["name"] for one in told["servers"]] == ["gpu001", "gpu002"]
    message, _mistakes = imports.refused(DELIVERY, delimiter=";;")
    assert "the option delimiter is no character" in message and "import_servers_delimiter" in message


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_list_takes_the_place_of_nothing_that_is_no_file(imports: Imports, check_mode: bool) -> None:
    """A link may lead to the list of another fleet; to read a FIFO waits for ever."""
    other = imports.folder / "other.csv"
    other.write_text(FLEET)
    imports.dest.symlink_to(other)
    assert f"a link, to {other}" in imports.written(check_mode=check_mode)["msg"]
    assert imports.dest.is_symlink() and other.read_text() == FLEET
    imports.dest.unlink()
    os.mkfifo(imports.dest)
    assert "the list would take the place of a FIFO" in imports.written(check_mode=check_mode)["msg"]
    assert imports.dest.is_fifo()


def test_of_two_imports_into_one_list_the_second_one_takes_nothing_out(imports: Imports) -> None:
    """It waits for nothing, and is refused as long as the first one is at work. Whoever only looks needs no lock."""
    imports.dest.write_text(FLEET)
    with _servers.kept_from_others(str(imports.dest)):
        message, _mistakes = imports.refused(DELIVERY, dest=str(imports.dest))
        assert "another import is writing this list" in message and imports.dest.read_text() == FLEET
        assert imports.written(check_mode=True)["changed"]
    assert imports.written()["changed"]


def test_a_list_is_never_there_in_a_mode_that_it_is_not_to_have(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends the import at its last step leaves one that the fleet can read."""
    monkeypatch.setattr(_servers.os, "chmod", lambda *_: pytest.fail("it stood there in another mode"))
    assert imports.written()["changed"] and imports.dest.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("fleet", "reason"),
    [
        (FLEET.replace("ABC0100,10.0.0.100", "ABC0100,10.0.0.2"), "two machines have the gpufleet_bmc_address"),
        (FLEET.replace("old1,", "GPU002,"), "'gpu002' stands in line 3 already"),
        (FLEET.replace(",ABC0001,", ",OTHER1,"), "two different values of serial"),
        (FLEET.replace("old1,ABC0100", "old1,1.00E+05"), "is a number that a spreadsheet made"),
    ],
)  # fmt: skip
def test_what_two_lists_are_together_is_checked_before_anything_is_written(
    imports: Imports, fleet: str, reason: str
) -> None:
    imports.dest.write_text(fleet)
    message, _mistakes = imports.refused(DELIVERY, dest=str(imports.dest))
    assert reason in message and imports.dest.read_text() == fleet


def test_a_host_of_a_run_has_what_the_inventory_would_give_it(imports: Imports) -> None:
    rows = DELIVERY.replace("west, cold", "{{ 1 + 1 }}")
    host = imports.task(rows, server="gpu001")["add_host"]
    assert host["host_name"] == "gpu001" and host["groups"] == ["imported_servers"]
    variables = host["host_vars"]
    assert variables["gpufleet_serial"] == "abc0001" and variables["gpufleet_boot_mac"] == "52:54:00:77:00:01"
    assert variables["gpufleet_bmc_password"] == "{{ lookup('ansible.builtin.env', 'BMC_PW') }}"
    assert is_trusted_as_template(variables["gpufleet_bmc_password"]), "read when it is needed"
    assert variables["csv_cooling"] == "{{ 1 + 1 }}", "the list's word is no template"
    assert not is_trusted_as_template(variables["csv_cooling"])
    assert imports.task(server="gpu009")["failed"]


def test_a_sites_own_lookup_reads_what_the_list_names(imports: Imports) -> None:
    rows = DELIVERY.replace("env:BMC_PW", "gpu")
    assert "the place of a secret is wanted" in imports.refused(rows)[0]
    host = imports.task(rows, server="gpu002", password_lookup="{{ lookup('env', 'VAULT_REF') }}")["add_host"]
    password = host["host_vars"]["gpufleet_bmc_password"]
    assert password == "{{ lookup('env', 'VAULT_gpu') }}" and is_trusted_as_template(password)


def test_no_server_takes_the_place_of_another_machine_of_its_name(imports: Imports) -> None:
    others = {"gpu001": {"gpufleet_serial": "ZZZ9"}, "gpu002": {"gpufleet_serial": "abc0002"}}
    message, mistakes = imports.refused(DELIVERY, hostvars=others)
    assert len(mistakes) == 1 and "another gpu001, of serial ZZZ9, and not abc0001" in message


@pytest.mark.slow
def test_what_was_delivered_beside_what_was_found(imports: Imports, ironic: Any) -> None:
    """Joined by what identifies a machine, whatever it is called there."""
    node = ironic.add("other-name", mac="52:54:00:77:00:01")
    stranger = ironic.add("stranger", mac="52:54:00:77:00:09")
    source = {"type": "ironic", "url": ironic.url, "username": "admin", "password": "s3cret-of-ironic"}
    done = imports.task(sources=[source])
    assert done["compared"]["missing"] == ["gpu002"], (done, node)
    (unexpected,) = done["compared"]["unexpected"]
    assert "52:54:00:77:00:09" in unexpected and stranger
    assert "listed, and found nowhere: gpu002" in done["lines"]
    assert "no known type" in imports.refused(DELIVERY, sources=[{"type": "spreadsheet"}])[0]
