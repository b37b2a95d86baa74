# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make contract`: the drivers certified at a site's own provisioner, on the selected machines and on no others."""

from __future__ import annotations

import contextlib
import http.server
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import service_sites
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe import tables as pxe_tables
from bcm_commands import site as bcm_commands_site
from calls import await_all, deployed, lead
from contract import newcomers
from pxe_files import site as pxe_files_site
from sites import Site
from xcat_commands import service as xcat_commands_service
from xcat_commands import site as xcat_commands_site

MAKE = Path(__file__).resolve().parents[3] / "make"
SHIPPED = (
    service_sites.MaasSite,
    service_sites.IronicSite,
    *(one for one in newcomers.adapters("provisioner", Site) if one.name == "warewulf"),
    xcat_commands_site.XcatSite,
    xcat_commands_service.XcatwsSite,
    bcm_commands_site.BcmSite,
    pxe_files_site.PxeSite,
)
#: No machine's firmware is through before that, and no boot server takes what came earlier for this boot.
FIRMWARE_SECONDS = pxe_tables.SLACK + 0.5
#: Whatever boots the machine at that site, asked by its name.
BOOT = "import sys, urllib.request; urllib.request.urlopen(sys.argv[2] + sys.argv[1]).close()"


@contextlib.contextmanager
def booting(site: Any) -> Iterator[str]:
    """Where machines of this site are booted from the network, by anybody who asks."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(FIRMWARE_SECONDS)
            site.boot(self.path.strip("/"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


@pytest.fixture(params=[pytest.param(one, id=one.label or one.name) for one in SHIPPED])
def place(request: pytest.FixtureRequest, started: Any) -> Any:
    with started(request.param).in_good_health() as chosen:
        yield chosen


def enrolled(site: Any, prefix: str) -> dict[str, Any]:
    """Ready, under a name of this prefix."""
    options = site.new()
    options["name"] = f"{prefix}{options['name']}"
    lead(options, "ready")
    assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"]
    return dict(options)


def contract(site: Any, folder: Path, *words: str, **connection: Any) -> subprocess.CompletedProcess[str]:
    """As `make contract` starts it, with the credential in the environment."""
    given = {**site.connection(), **connection}
    secrets = {f"GPUFLEET_{key.upper()}": str(value) for key, value in given.items() if key in names.OPTIONS}
    image = folder / "image.yml"
    image.write_text(yaml.safe_dump({"gpufleet_image": site.image()}), encoding="utf-8")
    options = folder / "options.yml"
    options.write_text(yaml.safe_dump(site.extras), encoding="utf-8")
    argv = [sys.executable, str(MAKE / "contract.py"), site.name, given["provisioner_url"], "--report", str(folder)]
    argv += ["--image", str(image), "--options", str(options), "--interval", "0.05", "--timeout", "60", *words]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUFLEET_")}
    # Of the site's plays; here is no inventory that it could be in.
    environment["GPUFLEET_PROVISIONER_LOGIN_HOST"] = "login1"
    return subprocess.run(argv, env={**environment, **secrets}, capture_output=True, text=True, check=False)


def told(site: Any, options: dict[str, Any]) -> list[str]:
    """The writes that name this machine, by its name or its id there."""
    marks = [options["name"], options["boot_mac"]]
    if site.name == "maas":
        marks.append(site.machine(options["name"]).system_id)
    if site.name == "ironic":
        marks.append(site.ask("GET", f"/nodes/{options['name']}")["uuid"])
    return [one for one in map(_words, site.faults.writes) if any(mark in one for mark in marks)]


def _words(call: Any) -> str:
    return f"{call.what} {call.body.decode('utf-8', 'replace')}"


def test_the_machines_of_a_prefix_are_certified_and_no_other_is_touched(place: Any, tmp_path: Path) -> None:
    prefix = f"cert-{os.getpid()}-"
    ours, theirs = enrolled(place, prefix), enrolled(place, f"x-{prefix}")
    words = ["--prefix", prefix]
    before = place.native(theirs["name"])
    place.faults.forget()
    with booting(place) as url:
        if not place.driver.owns_power:
            (tmp_path / "boot.py").write_text(BOOT, encoding="utf-8")
            words += ["--boot", f"{sys.executable} {tmp_path}/boot.py {{name}} {url}"]
        done = contract(place, tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    report = json.loads((tmp_path / f"{place.name}.json").read_text(encoding="utf-8"))
    outcomes = {one["scenario"]: one["outcome"] for one in report["scenarios"]}
    assert report["passed"] and report["machines"] == [ours["name"]] and "failed" not in outcomes.values()
    tried = ("ready", "deployed", "deployed anew", "marked", "released", "held and given back")
    assert {outcomes[one] for one in tried} == {"passed"}, outcomes
    assert (tmp_path / f"{place.name}.txt").read_text(encoding="utf-8") == done.stdout
    assert told(place, ours) and place.deployments() >= 2 and told(place, theirs) == []
    assert place.native(theirs["name"]) == before
    for secret in place.secrets:
        assert secret not in done.stdout + done.stderr + json.dumps(report)


def test_the_guard_lets_nothing_but_selected_machines_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(MAKE))
    guard = importlib.import_module("contract_scenarios").Guard(frozenset({"cert-1", "cert-2"}))
    for nodes in ((), ("other",), ("cert-1", "other")):
        with pytest.raises(NotOurs, match="not selected"):
            guard.before_write("PUT /x", destructive=False, nodes=nodes)
    guard.before_write("PUT /x", destructive=True, nodes=("cert-1", "cert-2"))
    assert guard.writes == ["PUT /x"] and guard.touched == {"cert-1", "cert-2"}


def test_a_selector_takes_what_begins_with_its_prefix_or_bears_its_very_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(MAKE))
    selector = importlib.import_module("contract_systems").Selector
    taken = [
        name for name in ("cert-1", "x-cert-2", "cer", "CERT-3") if selector(prefix="cert-").takes(name, ["cert-"])
    ]
    assert taken == ["cert-1"]
    tagged: dict[str, Any] = {
        "a": ["certify"],
        "b": ["certify-not"],
        "c": [],
        "d": {"certify": "yes"},
        "e": {"x": "certify"},
    }
    assert [name for name, tags in tagged.items() if selector(tag="certify").takes(name, tags)] == ["a", "d"]
    valued = {"f": {"use": "certify"}, "g": {"use": "other"}, "h": {}}
    assert [name for name, tags in valued.items() if selector(tag="use=certify").takes(name, tags)] == ["f"]


def test_nothing_is_tried_without_a_selector_or_where_it_takes_none(maas_site: Any, tmp_path: Path) -> None:
    enrolled(maas_site, "keep-")
    maas_site.faults.forget()
    for words, said in (
        ((), "by TAG or by PREFIX"),
        (("--tag", "certify", "--prefix", "keep-"), "by one of them"),
        (("--prefix", "  "), "by TAG or by PREFIX"),
        (("--prefix", "no-such-"), "no machine has the names that begin with no-such-"),
    ):
        done = contract(maas_site, tmp_path, *words)
        assert done.returncode == 2 and said in done.stderr and done.stdout == "", (words, done.stderr)
    assert maas_site.faults.writes == [] and not (tmp_path / "maas.json").exists()


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("gpufleet_image: hpc-1.4", "gpufleet_image in PATH is no mapping: hpc-1.4"),
        ("gpufleet_image:", "gpufleet_image in PATH is no mapping"),
        ("- hpc-1.4", "PATH has no mapping"),
        ("gpufleet_image: {}", "PATH says nothing of an image"),
        ("", "PATH has no mapping"),
    ],
)
def test_an_image_that_is_not_read_is_not_called_not_applicable(
    maas_site: Any, tmp_path: Path, image: str, said: str
) -> None:
    """It would pass without a deployment."""
    enrolled(maas_site, "img-")
    maas_site.faults.forget()
    path = tmp_path / "said.yml"
    path.write_text(image, encoding="utf-8")
    done = contract(maas_site, tmp_path, "--prefix", "img-", "--image", str(path))
    assert done.returncode == 2 and said.replace("PATH", str(path)) in done.stderr, done.stdout + done.stderr
    assert maas_site.faults.writes == [] and not (tmp_path / "maas.json").exists()


def _a_file(folder: Path) -> Path:
    (folder / "report").write_text("", encoding="utf-8")
    return folder / "report"


def _below_a_file(folder: Path) -> Path:
    return _a_file(folder) / "contract"


def _a_folder_in_its_place(folder: Path) -> Path:
    (folder / "report" / "maas.txt").mkdir(parents=True)
    return folder / "report"


@pytest.mark.parametrize("where", [_a_file, _below_a_file, _a_folder_in_its_place])
def test_where_no_certificate_can_lie_nothing_is_tried(
    maas_site: Any, tmp_path: Path, where: Callable[[Path], Path]
) -> None:
    """It was lost after the last release, with the hours that it told of."""
    enrolled(maas_site, "rep-")
    maas_site.faults.forget()
    done = contract(maas_site, tmp_path, "--prefix", "rep-", "--report", str(where(tmp_path)))
    assert done.returncode == 2 and "no certificate can be written into" in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and maas_site.faults.writes == []


def test_what_is_certified_is_what_was_named_and_not_a_cloud_that_was_left_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The driver takes the cloud alone, whose free machines would be deployed; and it has a login of its own."""
    monkeypatch.syspath_prepend(str(MAKE))
    spec = importlib.util.spec_from_file_location("certifier", MAKE / "contract.py")
    certifier: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(certifier)  # type: ignore[union-attr]
    for key in names.OPTIONS:
        monkeypatch.delenv(f"GPUFLEET_{key.upper()}", raising=False)
    monkeypatch.setenv("GPUFLEET_PROVISIONER_CLOUD", "site")
    monkeypatch.setenv("GPUFLEET_PROVISIONER_USERNAME", "fleet")
    monkeypatch.setenv("GPUFLEET_PROVISIONER_PASSWORD", "secret")
    assert certifier.main(["ironic", "https://ironic.example.com:6385", "--prefix", "cert-"]) == 2
    said = capsys.readouterr().err
    assert "ENDPOINT=site" in said and "https://ironic.example.com:6385" in said, said
    assert certifier.connection("ironic", "site") == {"provisioner": "ironic", "provisioner_cloud": "site"}
    monkeypatch.setenv("GPUFLEET_PROVISIONER_API_KEY", "a:b:c")
    url = "https://maas.example.com/MAAS"
    assert certifier.connection("maas", url)["provisioner_url"] == url, "it reads no clouds"


def _serves(site: Any, options: dict[str, Any]) -> None:
    """Somebody has deployed it."""


def _held(site: Any, options: dict[str, Any]) -> None:
    site.machine(options["name"]).locked = True


def test_a_machine_that_was_taken_since_it_was_selected_is_left_to_whoever_has_it(
    maas_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it may have had their lives for hours. Nor is it released at the end."""
    monkeypatch.syspath_prepend(str(MAKE))
    scenarios = importlib.import_module("contract_scenarios")
    spec = importlib.util.spec_from_file_location("certifier", MAKE / "contract.py")
    certifier: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(certifier)  # type: ignore[union-attr]
    given, theirs = maas_site.connection(), enrolled(maas_site, "late-")
    for key in names.OPTIONS:
        monkeypatch.setenv(f"GPUFLEET_{key.upper()}", str(given.get(key) or ""))
    words = ["maas", given["provisioner_url"], "--prefix", "late-", "--interval", "0.05", "--timeout", "60"]
    trial, _selector, _version = certifier.trial(certifier.arguments(words))
    [one] = trial.plan.machines
    assert trial.taken(one) == ""
    lead({**theirs, "image": maas_site.image()}, "deployed")
    trial.guard.touched.add(one.name)
    maas_site.faults.forget()
    for looks in (True, False):
        trial.taken = trial.taken if looks else lambda _one: ""
        trial.lost.clear()
        found = {each.scenario: each for each in scenarios._life(trial, one)}
        assert "NAMED=" in found["still free"].words if looks else found["still free"].outcome == "passed"
        assert looks or "this node is at work" in found["ready"].words, found
        assert found["released"].outcome == "not tried" and maas_site.faults.writes == []


@pytest.mark.parametrize(
    ("mark", "named", "code", "said"),
    [(_serves, False, 2, "NAMED="), (_held, True, 2, "these are not free"), (_serves, True, 0, "")],
    ids=["serves", "held", "named"],
)
def test_who_serves_is_tried_only_where_it_is_named_and_what_is_held_never(
    maas_site: Any, tmp_path: Path, mark: Callable[[Any, dict[str, Any]], None], named: bool, code: int, said: str
) -> None:
    """All of the tag are refused together: one that is in service among them says that the tag is wrong."""
    free, serves = deployed(maas_site), deployed(maas_site)
    lead(free, "released")
    assert await_all(maas_site, "released", free)["verdicts"][free["name"]]["ok"]
    for options in (free, serves):
        maas_site.machine(options["name"]).tags.append(f"t{tmp_path.name.replace('_', '-')}")
    mark(maas_site, serves)
    maas_site.faults.forget()
    words = ["--tag", f"t{tmp_path.name.replace('_', '-')}", *(["--named", serves["name"]] if named else [])]
    done = contract(maas_site, tmp_path, *words)
    assert done.returncode == code and said in done.stderr, done.stdout + done.stderr[-2000:]
    assert bool(maas_site.faults.writes) == (code == 0)
