# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories that a user copies work as they stand; only the addresses of their services are replaced."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).resolve().parents[3] / "inventory"
ROOT = Path(__file__).resolve().parents[3]
#: What every node needs, whatever the source.
NEEDED = {
    "gpufleet_serial", "gpufleet_sku", "gpufleet_image", "gpufleet_provisioner", "gpufleet_scheduler",
    "gpufleet_scheduler_node", "gpufleet_bmc_protocol", "gpufleet_bmc_address", "gpufleet_bmc_username",
    "gpufleet_bmc_password", "gpufleet_bmc_ca_path", "gpufleet_boot_mac", "gpufleet_failure_domain",
    "gpufleet_ledger_url", "gpufleet_provisioner_url", "gpufleet_passport_key_path", "ansible_host",
}  # fmt: skip


def copied(site: Any, name: str, url: str = "") -> None:
    shutil.copytree(EXAMPLES / name, site.folder, dirs_exist_ok=True)
    site.config = site.folder / "inventory" / "fleet.yml"
    config = yaml.safe_load(site.config.read_text())
    if url:
        config["sources"][0]["url"] = url
        config["sources"][0].pop("ca_path", None)
        config.pop("cache", None)
        site.config.write_text(yaml.safe_dump(config))


def check(hosts: dict[str, dict[str, Any]]) -> None:
    assert sorted(hosts) == ["gpu001", "gpu002", "gpu003"]
    profiles = {path.stem for path in (ROOT / "roles" / "gate" / "files" / "profiles").glob("*.y*ml")}
    for name, variables in hosts.items():
        assert set(variables) >= NEEDED, (name, NEEDED - set(variables))
        assert variables["gpufleet_sku"] in profiles


def test_csv(site: Any) -> None:
    copied(site, "csv")
    answer = site.ask("--list")
    check(answer.hosts)
    assert answer.data["rack12"]["hosts"] == ["gpu001", "gpu002"]


def test_ironic(site: Any, ironic: Any) -> None:
    for number, serial in enumerate(("S4X0012K", "S4X0013K", "S4X0014K"), 1):
        ironic.add(f"gpu00{number}", f"7c:c2:55:10:20:1{number}", serial=serial)
    ironic.add("other", "7c:c2:55:10:20:20", owner="somebody")
    copied(site, "ironic", ironic.url)
    site.env["IRONIC_PASSWORD"] = "s3cret-of-ironic"
    config = yaml.safe_load(site.config.read_text())
    config["sources"][0]["username"] = "admin"
    site.config.write_text(yaml.safe_dump(config))
    check(site.ask("--list").hosts)


@pytest.mark.slow
def test_maas(site: Any, request: pytest.FixtureRequest) -> None:
    import sys

    sys.path.insert(0, str(ROOT))
    from tests.maas_server.config import Config, User
    from tests.maas_server.server import MaasServer
    from tests.maas_server.store import Machine

    server = MaasServer(Config(users=(User("admin", "a:b:c"),)))
    request.addfinalizer(server.close)
    for number, serial in enumerate(("S4X0012K", "S4X0013K", "S4X0014K"), 1):
        server.store.machines[f"abc{number}"] = Machine(
            f"abc{number}", f"gpu00{number}", macs=[f"7c:c2:55:10:20:1{number}"], pool="training",
            hardware={"system_serial": serial, "system_product": "DGXH100"}, power_type="redfish",
            power_parameters={"power_address": f"10.20.12.{number}", "power_user": "root", "power_pass": "secret"},
        )  # fmt: skip
    server.start()
    copied(site, "maas", server.url)
    site.env["MAAS_API_KEY"] = "a:b:c"
    config = yaml.safe_load(site.config.read_text())
    config["compose"]["ansible_host"] = "'10.0.0.1'"  # this server assigns no addresses
    site.config.write_text(yaml.safe_dump(config))
    check(site.ask("--list").hosts)


@pytest.fixture
def folder(site: Any) -> Any:
    """The example for Ironic as a person or an automation controller takes it: its folder as the source."""
    copied(site, "ironic", "http://127.0.0.1:9")
    (site.folder / "inventory" / "more.yml").write_text("all: {hosts: {login01: {x: 1}}}\n")
    site.env["IRONIC_PASSWORD"] = "s3cret-of-ironic"
    site.env["ANSIBLE_INVENTORY_UNPARSED_FAILED"] = "False"  # as where nobody has set it
    return site


def test_w1_an_outage_makes_no_example_an_inventory_without_its_servers(folder: Any) -> None:
    """Another file of the folder can be read: to an automation controller that is an inventory of one host."""
    answer = folder.ask(ok=False, config=folder.folder / "inventory", itself=True)
    assert "Ironic does not answer" in answer.errors, answer.text
    (folder.folder / "ansible.cfg").unlink()
    assert sorted(folder.ask(config=folder.folder / "inventory", itself=True).hosts) == ["login01"], "by default it is"


def test_w1_no_line_of_a_list_becomes_a_host(site: Any) -> None:
    copied(site, "csv")
    shutil.copy(site.folder / "servers.csv", site.folder / "inventory" / "left-behind.csv")
    site.env["ANSIBLE_INVENTORY_UNPARSED_FAILED"] = "False"
    check(site.ask("--list", config=site.folder / "inventory", itself=True).hosts)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_w1_every_example_keeps_its_list_outside_the_folder_that_is_read(name: str) -> None:
    assert not list((EXAMPLES / name / "inventory").rglob("*.csv")) and list((EXAMPLES / name).glob("*.csv"))
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(EXAMPLES / name / "ansible.cfg")
    assert settings["inventory"]["any_unparsed_is_failed"] == "true"
    assert ".csv" in settings["inventory"]["ignore_extensions"].split(", ")


def test_no_example_holds_a_secret() -> None:
    for path in EXAMPLES.rglob("*.yml"):
        for line in path.read_text().splitlines():
            key, colon, value = line.strip().partition(": ")
            if colon and any(word in key for word in ("password", "api_key", "secret")):
                assert "lookup(" in value, f"{path}: {line}"
