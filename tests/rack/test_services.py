# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The services of the running rack."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rack_services as rack

pytestmark = [pytest.mark.rack, pytest.mark.needs_root]

HOST_VARIABLES = {
    "gpufleet_serial",
    "gpufleet_sku",
    "gpufleet_image",
    "gpufleet_provisioner",
    "gpufleet_scheduler",
    "gpufleet_scheduler_node",
    "gpufleet_bmc_protocol",
    "gpufleet_bmc_address",
    "gpufleet_bmc_username",
    "gpufleet_bmc_password",
    "gpufleet_bmc_ca_path",
    "gpufleet_boot_mac",
    "gpufleet_failure_domain",
    "gpufleet_ledger_url",
}


def inventory() -> dict[str, dict[str, object]]:
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(rack.CHECKOUT / "build" / "collections")}
    argv = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(rack.RACK / "inventory"), "--list"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    hosts: dict[str, dict[str, object]] = json.loads(done.stdout)["_meta"]["hostvars"]
    return hosts


def test_every_service_is_healthy() -> None:
    services = rack.status()
    assert {"boot-http", "ironic", "munged", "slurmctld"} <= set(services)
    assert {name: row["wrong"] for name, row in services.items() if not row["healthy"]} == {}


def test_second_rack_up_changes_nothing() -> None:
    before = {name: row["pid"] for name, row in rack.status().items()}
    maas = "MAAS=true" if "maas" in before else "MAAS=false"
    done = rack.make("rack-up", maas)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout
    assert {name: row["pid"] for name, row in rack.status().items()} == before


def test_ironic_wants_a_login() -> None:
    for user, password in ((None, ""), ("admin", "wrong")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            rack.get(f"{rack.IRONIC_URL}/v1/nodes", user, password)
        assert refused.value.code == 401
    drivers = json.loads(rack.get(f"{rack.IRONIC_URL}/v1/drivers", "admin", rack.secret("ironic_password")))
    assert {"redfish", "ipmi"} <= {driver["name"] for driver in drivers["drivers"]}


def test_golden_images_are_served_and_signed(tmp_path: Path) -> None:
    for name in ("SHA256SUMS", "SHA256SUMS.asc", "SHA256SUMS.wrong_signer.asc"):
        (tmp_path / name).write_bytes(rack.get(f"{rack.BOOT_URL}/images/{name}"))
    keyring = str(rack.RACK / "keys" / "images_signer.gpg")
    for signature, code in (("SHA256SUMS.asc", 0), ("SHA256SUMS.wrong_signer.asc", 2)):
        argv = ["gpgv", "--keyring", keyring, str(tmp_path / signature), str(tmp_path / "SHA256SUMS")]
        assert subprocess.run(argv, capture_output=True, check=False).returncode == code, signature
    rows = [line.split() for line in (tmp_path / "SHA256SUMS").read_text(encoding="ascii").splitlines()]
    assert len([name for _digest, name in rows if name.endswith(".tar.gz")]) == 2
    for digest, name in rows:
        assert hashlib.sha256(rack.get(f"{rack.BOOT_URL}/images/{name}")).hexdigest() == digest, name


def test_inventory_fills_every_host_variable() -> None:
    hosts = inventory()
    assert sorted(hosts) == ["gpu001", "gpu002", "gpu003", "gpu004"]
    for name, variables in hosts.items():
        assert set(variables) >= HOST_VARIABLES, name
        assert variables["gpufleet_boot_mac"] == f"52:54:00:77:00:0{name[-1]}"
    assert hosts["gpu004"]["gpufleet_bmc_protocol"] == "ipmi"


def test_inventory_names_the_image_that_is_served() -> None:
    image = inventory()["gpu001"]["gpufleet_image"]
    assert isinstance(image, dict)
    artifact = rack.get(image["url"])
    assert (hashlib.sha256(artifact).hexdigest(), len(artifact)) == (image["sha256"], image["size"])
    for key in ("manifest_url", "checksums_url", "signature_url", "kernel_url"):
        assert rack.get(image[key])
    assert Path(image["keyring"]).is_file()


def test_no_secret_stands_in_a_file_of_the_rack_or_in_a_command_line() -> None:
    words = {name: text.encode() for name, text in rack.secrets().items()}
    folders = [rack.RACK / name for name in ("inventory", "inventory-maas", "log", "run")]
    places = [path for folder in folders for path in folder.rglob("*")]
    places += [path for path in rack.RACK.iterdir() if path.suffix in (".json", ".conf")]
    places += [path / kind for path in Path("/proc").glob("[0-9]*") for kind in ("cmdline", "environ")]
    found = []
    for path in places:
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:
            continue
        found += [f"{name} in {path}" for name, word in words.items() if word in content]
    assert found == []


def test_secrets_are_root_s_alone() -> None:
    private = [*(rack.RACK / "secrets").iterdir(), rack.RACK / "tls" / "bmc.key", rack.RACK / "keys" / "node_ed25519"]
    assert [str(path) for path in private if path.stat().st_mode & 0o077] == []


def test_scheduler_knows_the_nodes_and_their_gpus() -> None:
    env = {**os.environ, "SLURM_CONF": str(rack.RACK / "slurm" / "slurm.conf")}
    argv = ["sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%N %G"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.split() == [word for n in range(1, 5) for word in (f"gpu00{n}", "gpu:h100:8")]


def test_status_names_a_dead_service_and_rack_up_brings_it_back() -> None:
    before = rack.status()
    os.kill(before["boot-http"]["pid"], 9)
    done = rack.make("rack-status")
    assert done.returncode != 0
    assert "boot-http" in done.stdout and "NOT HEALTHY: not running" in done.stdout
    done = rack.make("rack-up", "MAAS=true" if "maas" in before else "MAAS=false")
    assert done.returncode == 0, done.stdout + done.stderr
    after = rack.status()
    assert after["boot-http"]["healthy"]
    others = set(before) - {"boot-http"}
    assert {name: after[name]["pid"] for name in others} == {name: before[name]["pid"] for name in others}
