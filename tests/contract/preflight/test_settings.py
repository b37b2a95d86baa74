# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U2, U8: what is wrong with settings, keys, profile, image and ledger is told before anything is written, once."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sqlite3
import time
from pathlib import Path
from typing import Any, Callable

import pytest
import yaml
from ansible import constants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import artifact
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_files as files
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_policy as policy
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_settings as settings
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from sound_site import SoundSite

ROOT = Path(__file__).resolve().parents[3]
LOOKS: tuple[Callable[[Batch], None], ...] = (
    *(settings.look, files.ledger, files.keys, files.sku, policy.look, files.image),
)
SITE, SERVICE, NOTE = "site", "service", "note"
#: Looks at what is asked over the network, of which test_peers.py has some to play it.
PEERS = ("bmc", "provisioner", "scheduler")
ALL = ["gpu001", "gpu002", "gpu003"]


def test_u2_a_sound_site_has_nothing_told_of_it(site: SoundSite) -> None:
    assert site.told(*LOOKS) == []


def of_all(name: str, value: Any) -> Callable[[SoundSite], None]:
    def spoil(site: SoundSite) -> None:
        site.shared[name] = value(site) if callable(value) else value

    return spoil


def without(name: str) -> Callable[[SoundSite], None]:
    return lambda site: site.shared.pop(name)


def readable_key(site: SoundSite) -> None:
    site.key.chmod(0o644)


def other_public(site: SoundSite) -> None:
    site.public.write_text(
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
        "-----END PUBLIC KEY-----\n"
    )


def signed_by_a_stranger(site: SoundSite) -> None:
    site.image.publish(signer="stranger")


def no_artifact(site: SoundSite) -> None:
    site.image.artifact.unlink()


def of_the_environment(site: SoundSite) -> None:
    site.shared["gpufleet_bmc_password"] = ""
    site.written["gpufleet_bmc_password"] = "{{ lookup('ansible.builtin.env', 'BMC_PASSWORD') }}"


def of_the_environment_at_maas(site: SoundSite) -> None:
    site.shared.update(gpufleet_provisioner="maas", gpufleet_provisioner_api_key="")
    site.written["gpufleet_provisioner_api_key"] = "{{ lookup('env', 'MAAS_API_KEY') }}"


def of_the_environment_at_ironic(site: SoundSite) -> None:
    site.shared.update(gpufleet_provisioner_username="fleet", gpufleet_provisioner_password="")
    site.written["gpufleet_provisioner_password"] = "{{ lookup('ansible.builtin.env', 'IRONIC_PASSWORD') }}"


def networks(site: SoundSite) -> None:
    for host in site.hosts.values():
        host["gpufleet_bmc_address"] = "10.1.7.1/24"


UNREAD = "nobody reads the variable"
#: What is spoilt: how, whose it is, what is told of it, and of the way out.
MISTAKES: list[tuple[Callable[[SoundSite], Any], str, str, str]] = [
    (of_all("gpufleet_bmc_ca_pth", "x"), SITE, f"{UNREAD} gpufleet_bmc_ca_pth", "gpufleet_bmc_ca_path"),
    (of_all("gpufleet_images", "x"), NOTE, f"{UNREAD} gpufleet_images", "did you mean gpufleet_image? Else leave it"),
    (of_all("gpufleet_image2", "x"), NOTE, f"{UNREAD} gpufleet_image2", "did you mean gpufleet_image? Else leave it"),
    (of_all("gpufleet_imgae", "x"), SITE, f"{UNREAD} gpufleet_imgae", "did you mean gpufleet_image?"),
    (of_all("gpufleet_rack", "x"), NOTE, f"{UNREAD} gpufleet_rack", "leave it out, or choose a name"),
    (of_all("gpufleet_bmc_vlan", 7), NOTE, f"{UNREAD} gpufleet_bmc_vlan", "leave it out, or choose a name"),
    (of_all("gpufleet_pdu", "A"), NOTE, f"{UNREAD} gpufleet_pdu", "leave it out, or choose a name"),
    (of_all("gpufleet_suk", "x"), SITE, f"{UNREAD} gpufleet_suk", "did you mean gpufleet_sku?"),
    (of_all("gpufleet_colour", "x"), NOTE, f"{UNREAD} gpufleet_colour", "leave it out"),
    (of_all("gate_dcgm_levl", 2), NOTE, f"{UNREAD} gate_dcgm_levl", "gate_dcgm_level"),
    (of_all("gate_dcgm_level", "high"), SITE, "gate_dcgm_level", "correct gate_dcgm_level"),
    (
        of_all("gate_dcgm_level", 9),
        SITE,
        "value of gate_dcgm_level must be one of: 0, 1, 2, 3, 4",
        "correct gate_dcgm_level",
    ),
    (of_all("gate_dcgm_level", 2), SITE, "more than gate_dcgm_level: level 2, wanted 3", "gate_dcgm_level"),
    (
        of_all("gate_more", {"nvbandwith": {}}),
        SITE,
        "nvbandwith, which is no module's full name",
        "collection and module",
    ),
    (
        of_all("passport_policy", {"required_gates": ["image_verify", "gpu_bandwidth_gate"]}),
        SITE,
        "it requires gpu_bandwidth_gate, and nothing runs it (gate_more)",
        "gate_more",
    ),
    (of_all("join_policy", {"required_gates": ["nvbandwith"]}), SITE, "nvbandwith: not a gate of the collection", ""),
    (of_all("passport_policy_file", "/nonexistent"), SITE, "/nonexistent", ""),
    (of_all("passport_lifetime", 9_000_000), SITE, "passport_lifetime is 9000000 s, allowed are 7776000 s", "policy"),
    (of_all("join_timeout", 8_000_000), SITE, "join_timeout is 8000000 s, and a passport lives 7776000 s", "policy"),
    (of_all("passports_renew", "ture"), SITE, "passports_renew", "correct passports_renew"),
    (of_all("gpufleet_scheduler", "slrum"), SITE, "slrum", "correct gpufleet_scheduler"),
    (of_all("gpufleet_bmc_verify_tls", "perhaps"), SITE, "gpufleet_bmc_verify_tls", "correct gpufleet_bmc_verify_tls"),
    (of_all("gpufleet_tenant", False), SITE, "gpufleet_tenant is no text", "quote it"),
    (of_all("gpufleet_bmc_password", ""), SITE, "gpufleet_bmc_password is empty", "environment"),
    (
        of_the_environment,
        SITE,
        "the environment variable BMC_PASSWORD is not set",
        "export BMC_PASSWORD where Ansible runs",
    ),
    (of_the_environment_at_maas, SITE, "environment variable MAAS_API_KEY is not set", "export MAAS_API_KEY"),
    (of_the_environment_at_ironic, SITE, "environment variable IRONIC_PASSWORD is not set", "export IRONIC_PASSWORD"),
    (
        networks,
        SITE,
        "a network; an address without",
        "correct gpufleet_bmc_address",
    ),
    (of_all("gpufleet_bmc_password", ValueError("no vault")), SITE, "gpufleet_bmc_password cannot be read", ""),
    (without("gpufleet_image"), SITE, "gpufleet_image is not set", "set gpufleet_image"),
    (without("gpufleet_provisioner_url"), SITE, "gpufleet_provisioner_url is not set", "set gpufleet_provisioner_url"),
    (of_all("gpufleet_image", "gpu-golden"), SITE, "gpufleet_image", "correct gpufleet_image"),
    (
        of_all("gpufleet_image", [1]),
        SITE,
        "gpufleet_image is a list, wanted: keys and values",
        "correct gpufleet_image",
    ),
    (of_all("gpufleet_image", lambda site: [site.image.declared()]), SITE, "is a list, wanted: keys and values", ""),
    (of_all("gpufleet_image", 7), SITE, "gpufleet_image is one value, wanted: keys and values", ""),
    (of_all("gpufleet_image", lambda site: site.image.declared(sha265="1")), SITE, "sha265 (did you mean sha256?)", ""),
    (of_all("gpufleet_image", lambda site: site.image.declared(version=1.10)), SITE, "version 1.1): write them in", ""),
    (of_all("gpufleet_image", lambda site: site.image.declared(signature_url=None)), SITE, "signature_url", ""),
    (of_all("gpufleet_image", lambda site: site.image.declared(sha256="0" * 64)), SITE, "another sha256", ""),
    (signed_by_a_stranger, SITE, "SHA256SUMS", ""),
    (no_artifact, SITE, "cannot be read", ""),
    (of_all("gpufleet_sku", "h200-nvl-8"), SITE, "the SKU h200-nvl-8 has no profile", "write h200-nvl-8.yaml"),
    (readable_key, SITE, "the passport key may be read by others", "chmod 600"),
    (of_all("gpufleet_passport_key_path", "/nonexistent"), SITE, "the passport key cannot be read", "openssl genpkey"),
    (other_public, SITE, "the passport key is not among the public keys", "openssl pkey"),
    (of_all("gpufleet_ledger_url", "mysql://x/y"), SITE, "the ledger", ""),
    (of_all("gpufleet_ledger_url", lambda site: f"sqlite:///{site.key}/l"), SITE, "the ledger cannot be written", ""),
    (without("gpufleet_ledger_url"), NOTE, "gpufleet_ledger_url is not set", "PostgreSQL"),
]


@pytest.mark.parametrize(("spoil", "kind", "what", "way_out"), MISTAKES, ids=[one[2][:40] for one in MISTAKES])
def test_u8_a_mistake_that_all_nodes_share_is_one_line(
    site: SoundSite, spoil: Callable[[SoundSite], Any], kind: str, what: str, way_out: str
) -> None:
    """What it is, whose, and what to do; nothing else is told beside it."""
    spoil(site)
    [cause] = site.told(*LOOKS)
    assert (cause["kind"], cause["hosts"], cause["instance"]) == (kind, ALL, ""), cause
    assert what in cause["what"] and way_out in cause["do"], cause
    _head, _heading, line = site.lines(*LOOKS)
    assert line.startswith("  all 3 nodes: ") and "\n" not in line
    assert not (site.folder / "ledger.sqlite").exists() and not (site.folder / "state").exists()


def test_u2_in_the_container_of_a_job_a_ledger_without_an_address_stops(
    site: SoundSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWX_HOST", "https://awx.example.com")
    monkeypatch.delenv("GPUFLEET_LEDGER_MAY_BE_LOST")
    # A run of its own: what another one has opened, as where this machine has a ledger, is not looked at again.
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(site.folder))
    site.shared.pop("gpufleet_ledger_url")
    [cause] = site.told(files.ledger)
    assert cause["kind"] == SITE and "is gone with it" in cause["what"]


def test_u2_a_ledger_of_an_older_release_stops_no_run(site: SoundSite) -> None:
    """The run that comes after the look alters its tables; the look does not."""
    file = site.folder / "ledger.sqlite"
    Ledger(f"sqlite:///{file}").close()
    with contextlib.closing(sqlite3.connect(file)) as older:
        older.executescript("DROP TABLE turns; DROP TABLE upkeep; DELETE FROM schema_version WHERE version >= 4")
    site.shared["gpufleet_ledger_url"] = f"sqlite:///{file}"
    before = file.read_bytes()
    [cause] = site.told(*LOOKS)
    assert cause["kind"] == NOTE and "the first run alters its tables" in cause["what"], cause
    assert cause["seen"] == "schema 3" and file.read_bytes() == before


def test_u2_two_ledgers_in_one_run_are_told(site: SoundSite) -> None:
    site.hosts["gpu002"]["gpufleet_ledger_url"] = f"sqlite:///{site.folder}/another.sqlite"
    [cause] = site.told(files.ledger)
    assert cause["kind"] == NOTE and cause["seen"] == "2 ledgers"


def test_u8_what_is_wrong_in_one_row_names_that_host(site: SoundSite) -> None:
    site.hosts["gpu002"].update(gpufleet_boot_mac="7c:c2:55", gpufleet_sku="h200-nvl-8")
    told = {cause["check"]: cause for cause in site.told(*LOOKS)}
    assert {name: cause["hosts"] for name, cause in told.items()} == {"settings": ["gpu002"], "sku": ["gpu002"]}
    assert "gpufleet_boot_mac: '7c:c2:55'" in told["settings"]["what"]


def test_u2_a_profile_of_the_sites_own_has_what_each_gate_needs_that_judges_by_it(
    site: SoundSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of before the gate: told before a node is drained, with its file and the setting that leaves the gate out."""
    own = site.folder / "profiles" / "h100-sxm-8.yaml"
    own.parent.mkdir()
    monkeypatch.setenv("GPUFLEET_PROFILE_PATH", str(own.parent))
    profile = yaml.safe_load((ROOT / "roles" / "gate" / "files" / "profiles" / own.name).read_text(encoding="utf-8"))
    del profile["gpu_state"]
    own.write_text(yaml.safe_dump(profile), encoding="utf-8")
    site.hosts["gpu002"]["gate_gpu_state"] = "false"  # as -e and files of key=value give it
    [cause] = site.told(*LOOKS)
    assert (cause["check"], cause["kind"], cause["hosts"]) == ("sku", SITE, ["gpu001", "gpu003"])
    assert "no section gpu_state" in cause["what"] and cause["address"] == str(own), cause
    assert "gate_gpu_state: false" in cause["wanted"], cause
    [line] = site.lines(*LOOKS)[2:]
    assert all(word in line for word in (str(own), "no section gpu_state", "gate_gpu_state: false")), line
    site.shared["gate_gpu_state"] = False
    assert site.told(*LOOKS) == []
    del profile["dcgm"]
    own.write_text(yaml.safe_dump(profile), encoding="utf-8")
    [cause] = site.told(*LOOKS)
    assert "no section dcgm" in cause["what"] and not cause["wanted"], cause


def test_a_file_of_the_sites_that_lies_over_a_profile_is_told_where_it_is_broken(
    site: SoundSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = site.folder / "h100-sxm-8.site.yaml"
    monkeypatch.setenv("GPUFLEET_PROFILE_PATH", str(site.folder))
    over.write_text("gpu:\n  power:\n    value: 650\n", encoding="utf-8")
    [cause] = site.told(*LOOKS)
    assert (cause["check"], cause["kind"]) == ("sku", SITE) and f"{over}:2: gpu.power: " in cause["what"], cause
    over.write_text("gpu_state: null\n", encoding="utf-8")
    [cause] = site.told(*LOOKS)
    assert "no section gpu_state" in cause["what"] and cause["address"] == str(over), cause
    over.write_text("title: ours\n", encoding="utf-8")
    assert site.told(*LOOKS) == []


@pytest.mark.parametrize(("name", "value"), [("boot_mac", "7c:c2:{}"), ("bmc_address", "10.1.7.3.{}")])
def test_u8_the_same_mistake_in_each_row_is_one_line(site: SoundSite, name: str, value: str) -> None:
    for number, host in enumerate(ALL, 1):
        site.hosts[host][f"gpufleet_{name}"] = value.format(number)
    [cause] = site.told(settings.look)
    assert (cause["hosts"], cause["instance"]) == (ALL, "gpu001") and value.format(1) in cause["what"], cause


def test_w1_a_list_of_servers_that_is_given_as_an_inventory_is_told(site: SoundSite) -> None:
    """Each of its lines would be a host, and its heading too."""
    for line in ("name,serial,rack", "gpu001;SN0001;r1"):
        site.hosts[line] = dict(site.hosts["gpu001"])
    [cause] = [one for one in site.told(settings.look) if "lines of a list" in one["what"]]
    assert cause["kind"] == SITE and len(cause["hosts"]) == 2 and "fleet.yml" in cause["do"], cause


def test_u8_a_name_of_the_sites_own_beside_the_one_that_it_is_like_stops_nobody(site: SoundSite) -> None:
    site.shared["gpu_fleet_sku"] = "x"
    assert [cause["kind"] for cause in site.told(settings.look)] == [NOTE]
    del site.shared["gpufleet_sku"]
    assert [cause["kind"] for cause in site.told(settings.look)] == [SITE, SITE], "now it is a slip"


def test_u8_what_the_budgets_of_waves_are_called_after_is_read(site: SoundSite) -> None:
    site.shared.update({"gpufleet_pdu": "A", "gpufleet_tenan": "x"})
    site.shared["fleet_plan_budgets"] = {"fleet": "10%", "gpufleet_pdu": 4, "gpufleet_tenan": 1}
    assert site.told(settings.look) == []
    site.hosts["gpu001"]["fleet_plan_budgets"] = {"fleet": "10%"}
    assert {one["what"].split()[-1]: one["hosts"] for one in site.told(settings.look)} == {
        "gpufleet_pdu": ["gpu001"], "gpufleet_tenan": ["gpu001"],
    }  # fmt: skip


@pytest.mark.parametrize("title", ["Status", "Passports", "Maintenance", "Identity", "Day 0", "Day 2", "Adoption"])
def test_u8_what_a_report_left_for_the_jobs_that_follow_is_no_mistake(site: SoundSite, title: str) -> None:
    site.shared.update(artifact(title, {})["data"])
    assert site.told(settings.look) == []


def test_u8_a_slip_in_a_name_of_ours_is_one_also_beside_the_right_name(site: SoundSite) -> None:
    """It was to override that: a group's image, say."""
    site.shared["gpufleet_bmc_ca_pth"] = "/etc/ca.pem"
    site.hosts["gpu001"]["gpufleet_bmc_ca_path"] = "/etc/ca.pem"
    assert [(one["kind"], one["hosts"]) for one in site.told(settings.look)] == [(SITE, ALL)]


def test_u8_a_slip_in_any_other_name_is_judged_by_what_stands_beside_it_at_each_host(site: SoundSite) -> None:
    site.shared["gpuflet_bmc_ca_path"] = "/etc/ca.pem"
    site.hosts["gpu001"]["gpufleet_bmc_ca_path"] = "/etc/ca.pem"
    assert [(one["kind"], one["hosts"]) for one in site.told(settings.look)] == [(SITE, ALL[1:]), (NOTE, ALL[:1])]


def test_u8_all_names_of_the_page_on_variables_are_known() -> None:
    """And the page has all that are."""
    page = (ROOT / "docs" / "reference" / "host-variables.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `gpufleet_")]
    named = set(re.findall(r"`(gpufleet_\w+)`", " ".join(rows)))
    assert named | {"gpufleet_for_tenant"} == settings.OWN and "`gpufleet_for_tenant" in page


@pytest.mark.parametrize(
    "login",
    [
        {"cloud": "site", "url": "", "username": "", "password": ""},
        {"cloud": "site", "username": "fleet", "password": ""},
        {"username": "", "password": ""},
        {"password": ""},
    ],
)
def test_u2_a_password_that_nobody_reads_may_be_empty(site: SoundSite, login: dict[str, str]) -> None:
    """A cloud of clouds.yaml replaces address and login; and an Ironic without Keystone may have none."""
    site.shared.update({f"gpufleet_provisioner_{name}": value for name, value in login.items()})
    assert [one for one in site.told(settings.look) if one["kind"] != NOTE] == []


def test_u2_a_secret_of_a_provisioner_that_knows_no_clouds_is_needed_all_the_same(site: SoundSite) -> None:
    site.shared.update(gpufleet_provisioner="maas", gpufleet_provisioner_cloud="site", gpufleet_provisioner_api_key="")
    assert any("gpufleet_provisioner_api_key is empty" in one["what"] for one in site.told(settings.look))


@pytest.mark.slow
def test_u2_two_hundred_nodes_with_one_mistake_are_one_line_in_seconds(site: SoundSite) -> None:
    """A name misspelt with -e; and nothing is written, not even a ledger."""
    site.grow(200)
    began = time.monotonic()
    result = site.book("-e", "gpufleet_bmc_ca_pth=/etc/ca.pem", ok=False, skip=PEERS)
    took = time.monotonic() - began
    [cause] = result["findings"]
    assert len(cause["hosts"]) == 200 and cause["kind"] == SITE and result["ok"] is False
    assert result["lines"] == [
        "Preflight: 200 nodes: 1 to be mended before anything is written",
        "Settings of the site, to be corrected first:",
        "  all 200 nodes: nobody reads the variable gpufleet_bmc_ca_pth."
        " Do: did you mean gpufleet_bmc_ca_path? Correct the name",
    ]
    assert "as told above" in site.output
    assert max(len(line) for line in site.output.splitlines() if not line.startswith("RESULT ")) <= 100
    assert not (site.folder / "ledger.sqlite").exists()
    assert took < 60, took  # a task a host would take longer than this machine ever does for all of them


@pytest.mark.slow
def test_u2_a_sound_site_passes_and_no_secret_is_shown(site: SoundSite) -> None:
    site.shared["gpufleet_bmc_auth"] = "of-the-bmc"  # whoever pastes a password into the wrong place
    result = site.book(ok=False, skip=PEERS)
    [cause] = result["findings"]
    assert "gpufleet_bmc_auth" in cause["what"] and "of-the-bmc" not in site.output
    del site.shared["gpufleet_bmc_auth"]
    assert site.book(ok=True, skip=PEERS)["ok"] and "nothing stands in the way" in site.output


@pytest.mark.slow
def test_u2_a_ledger_that_is_silent_is_waited_for_once_and_its_address_is_told(site: SoundSite) -> None:
    """Not once for each host, of whose BMCs a certificate may be fixed in it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        site.shared["gpufleet_ledger_url"] = f"postgresql://fleet@127.0.0.1:{port}/fleet?connect_timeout=2"
        site.shared["gpufleet_bmc_tls_fingerprint"] = "first"
        result = site.book(ok=False, skip=("provisioner", "scheduler"))
        silent.setblocking(False)
        tried = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                tried += 1
    [cause] = [one for one in result["findings"] if one["check"] == "ledger"]
    assert cause["kind"] == SERVICE and len(cause["hosts"]) == 3, cause
    assert f"127.0.0.1:{port}" in cause["address"] and "********" not in json.dumps(result), cause
    assert tried == 2, "by the look at the ledger, and for what it has of the hosts"
