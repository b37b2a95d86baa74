# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the Warewulf server of this project like a Warewulf? Against answers recorded from 4.7.0, and its known traps."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from recorded import demanded
from warewulf_server import wwctl
from warewulf_server.server import Config, WarewulfServer, image

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
PROFILE = {
    "ipxe template": "default",
    "runtime overlay": ["hosts", "ssh.authorized_keys"],
    "system overlay": [
        *("wwinit", "wwclient", "hosts", "fstab", "hostname", "ssh.host_keys", "issue", "resolv", "udev.netname"),
        *("systemd.netname", "ifcfg", "ifupdown", "NetworkManager", "wicked", "ignition"),
    ],
    "kernel": {"args": ["quiet", "crashkernel=no", "net.ifnames=1"]},
    "ipmi": {"template": "ipmitool.tmpl"},
    "init": "/sbin/init",
    "root": "initramfs",
    "resources": {
        "fstab": [
            {"file": "/home", "mntops": "defaults,nofail", "spec": "warewulf:/home", "vfstype": "nfs"},
            {"file": "/opt", "mntops": "defaults,noauto,nofail,ro", "spec": "warewulf:/opt", "vfstype": "nfs"},
        ]
    },
}
NODE = {
    "profiles": ["default"],
    "image name": "u24",
    "ipmi": {"ipaddr": "127.0.0.1"},
    "network devices": {
        "default": {"device": "eno1", "hwaddr": MACS[0], "ipaddr": "127.1.0.1", "netmask": "255.255.255.0"}
    },
}
#: Requests whose answers this server does not give: it imports no images, and tells no fields.
LEFT_OUT = re.compile(r"/fields|/images/x")
#: What differs from run to run: times.
TIMES = re.compile(r'("(?:mtime|last seen|buildtime)":\s*)("[^"]*"|\d+)')


@pytest.fixture
def server() -> Iterator[WarewulfServer]:
    overlays = (*PROFILE["system overlay"], *PROFILE["runtime overlay"])
    made = WarewulfServer(Config(users={"admin": "secret"}, images={"u24": image()}, overlays=overlays))
    made.conf.change("default", lambda one: one.update(PROFILE), "nodeprofiles")
    made.conf.change("g001", lambda one: one.update(NODE))
    made.start()
    yield made
    made.close()


def asked(server: WarewulfServer, command: str) -> requests.Response:
    """As this `curl` asked the real one."""
    method, headers, login, url = "GET", {}, None, ""
    line, _d, data = command.partition(" -d ")
    words = iter(line.split())
    for word in words:
        if word == "-u":
            login = tuple(next(words).split(":"))
        elif word == "-X":
            method = next(words)
        elif word == "-o":
            next(words)
        elif word == "-H":
            key, _colon, value = next(words).partition(":")
            headers[key] = value.strip() or next(words)
        else:
            url = server.url + re.sub(r"^http://[^/]+", "", word)
    return requests.request(method, url, headers=headers, data=data or None, auth=login, timeout=10)  # type: ignore[arg-type]


def exchanges(text: str) -> list[tuple[str, str, int, str]]:
    """Command, body, status and type of each."""
    found = []
    for part in re.split(r"^\$ curl ", text, flags=re.MULTILINE)[1:]:
        command, _break, rest = part.partition("\n")
        body, status, kind = re.fullmatch(r"(.*)\n\s*\[HTTP (\d+) ?(.*)\]\s*", rest, re.DOTALL).groups()  # type: ignore[union-attr]
        found.append((command, body.strip(), int(status), kind))
    return found


def test_each_recorded_request_is_answered_as_warewulf_answered_it(server: WarewulfServer) -> None:
    """In its order, since each finds what those before it left."""
    told = exchanges(demanded("provisioners/warewulf").joinpath("rest_4.7.0_measured.txt").read_text("utf-8"))
    assert len(told) > 25
    for command, body, status, kind in told:
        if LEFT_OUT.search(command):
            continue
        answer = asked(server, command)
        assert answer.status_code == status, command
        if "-o /dev/null" in command:
            continue
        assert answer.headers["Content-Type"].startswith(kind), command
        ours, theirs = (TIMES.sub(r"\1 0", one.strip()) for one in (answer.text, body))
        if theirs.startswith(("{", "[")):
            assert json.loads(ours) == json.loads(theirs), command
        else:
            assert ours == theirs, command


def test_of_two_writes_at_once_one_may_be_lost_that_was_answered_200(server: WarewulfServer) -> None:
    """As measured: 60 PUTs by 8 workers, 53 of them answered 200, 47 nodes there."""
    server.conf._thinks = 0.02
    url, login = f"{server.url}/api/nodes/", ("admin", "secret")

    def put(number: int) -> int:
        return requests.put(f"{url}n{number}", json={"node": {}}, auth=login, timeout=10).status_code

    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(put, range(8)))
    there = set(requests.get(url, auth=login, timeout=10).json())
    assert codes == [200] * 8 and len(there & {f"n{number}" for number in range(8)}) < 8


def test_who_reads_nodes_conf_as_it_is_written_finds_nothing_in_it(server: WarewulfServer) -> None:
    """As measured: of parallel PUTs some are answered 400, since their profile is not there."""
    server.conf._tears = 30.0
    url, login = f"{server.url}/api/nodes/", ("admin", "secret")
    body = {"node": {"profiles": ["default"]}}
    server.conf._text, there = "", server.conf._text  # another write has opened the file, and not written it
    refused = requests.put(f"{url}n1", json=body, auth=login, timeout=10)
    assert refused.status_code == 400 and "profile 'default' does not exist" in refused.json()["error"]
    assert requests.get(url, auth=login, timeout=10).json() == {}
    assert requests.patch(f"{url}g001", json={"node": {}}, auth=login, timeout=10).status_code == 404
    server.conf._text, server.conf._tears = there, 0.02
    before = server.conf.load()
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(server.conf.save, before)
        seen = {bool(server.conf.load()["nodes"]) for _look in iter(written.done, True)}
    assert False in seen and server.conf.load() == before


def test_an_overlay_that_is_not_there_leaves_no_word_of_it(server: WarewulfServer) -> None:
    server.asks("image", MACS[0])
    server.conf.change("default", lambda one: one.update({"system overlay": ["wwinit", "nosuch"]}), "nodeprofiles")
    assert server.asks("system", MACS[0]).code == 404
    assert server.status["g001"]["stage"] == "image"


def test_a_runtime_overlay_comes_by_tls_alone_where_that_is_demanded(server: WarewulfServer) -> None:
    server.asks("system", MACS[0])
    server.config.tls = True
    assert server.asks("runtime", MACS[0]).code == 403 and server.status["g001"]["stage"] == "system"
    server.config.version = "4.6.5"
    assert server.asks("runtime", MACS[0]).code == 200, "which knows no TLS"


def test_of_two_nodes_with_one_card_the_last_one_is_served(server: WarewulfServer) -> None:
    server.conf.change("g002", lambda one: one.update({**NODE, "image name": ""}))
    for stage in ("image", "system"):
        server.asks(stage, MACS[0])
    assert set(server.status) == {"g002"} and server.status["g002"]["sent"] != "u24.img.gz"


def test_a_merge_takes_nothing_away_and_a_whole_record_does(server: WarewulfServer) -> None:
    url, login = f"{server.url}/api/nodes/g001", ("admin", "secret")

    def own() -> Any:
        return requests.get(f"{url}/raw", auth=login, timeout=10).json()

    requests.patch(url, json={"node": {"image name": "", "kernel": {"args": ["a"]}}}, auth=login, timeout=10)
    assert own()["image name"] == "u24" and own()["kernel"] == {"args": ["a"]}
    requests.patch(url, json={"node": {"kernel": {"version": "6"}}}, auth=login, timeout=10)
    assert own()["kernel"] == {"args": ["a"], "version": "6"}
    for value in ("x", ""):  # a map of texts takes any text, and keeps its keys
        requests.patch(url, json={"node": {"tags": {"a": value, "b": "y"}}}, auth=login, timeout=10)
        requests.patch(url, json={"node": {"tags": {"b": "z"}}}, auth=login, timeout=10)
        assert own()["tags"] == {"a": value, "b": "z"}
    requests.put(url, json={"node": {"profiles": ["default"]}}, auth=login, timeout=10)
    assert own() == {"profiles": ["default"]}


def test_a_node_with_an_asset_key_is_served_with_that_alone(server: WarewulfServer) -> None:
    server.conf.change("g001", lambda one: one.update({"asset key": "A-17"}))
    url = f"{server.url}/image/{MACS[0]}"
    assert requests.get(url, timeout=10).status_code == 401
    assert server.status["g001"]["sent"] == "BAD_ASSET"
    assert requests.get(f"{url}?assetkey=A-17", timeout=10).status_code == 200


def test_a_strangers_card_becomes_that_of_a_node_to_be_discovered(server: WarewulfServer) -> None:
    assert server.asks("ipxe", MACS[1]).code == 400 and "" in server.status
    server.conf.change("g009", lambda one: one.update({"profiles": ["default"], "discoverable": "true"}))
    assert server.asks("ipxe", MACS[1].replace(":", "-")).code == 200
    found = server.conf.load()["nodes"]["g009"]
    assert found["network devices"]["default"]["hwaddr"] == MACS[1] and "discoverable" not in found


def test_an_image_that_was_not_built_is_not_found(server: WarewulfServer) -> None:
    server.config.images["u24"]["buildtime"] = 0
    assert server.asks("image", MACS[0]).code == 404 and server.status["g001"]["sent"] == "NOT_FOUND"
    requests.post(f"{server.url}/api/images/u24/build?force=true", auth=("admin", "secret"), timeout=10)
    assert server.asks("image", MACS[0]).code == 200


def test_overlays_that_are_not_there_are_not_built(server: WarewulfServer) -> None:
    server.conf.change("default", lambda one: one.update({"runtime overlay": ["nosuch"]}), "nodeprofiles")
    url = f"{server.url}/api/nodes/g001/overlays/build"
    assert requests.post(url, auth=("admin", "secret"), timeout=10).status_code == 500 and server.built == {}


def test_a_profile_is_made_and_never_replaced_where_that_is_asked_for(server: WarewulfServer) -> None:
    url, login = f"{server.url}/api/profiles/gpu", ("admin", "secret")
    only_new = {"If-None-Match": "*"}

    def put(profile: Any, headers: Any = None) -> requests.Response:
        return requests.put(url, json={"profile": profile}, headers=headers, auth=login, timeout=10)

    assert put({"root": "tmpfs", "bogus": 1}, only_new).json() == {"root": "tmpfs"}
    again = put({"root": "initramfs"}, only_new)
    assert again.status_code == 400 and "profile 'gpu' already exists" in again.json()["error"]
    assert put({"init": "/sbin/init"}).json() == {"init": "/sbin/init"}, "without it, it takes the other's place"
    assert put({"system overlay": ["nosuch"]}).status_code == 400
    server.conf.change("g001", lambda one: one.update(profiles=["gpu"]))
    in_use = requests.delete(url, auth=login, timeout=10)
    assert in_use.status_code == 400 and "in use by 1 nodes and 0 profiles" in in_use.json()["error"]


def test_files_of_overlays_and_their_traps(server: WarewulfServer) -> None:
    url, login = f"{server.url}/api/overlays", ("admin", "secret")

    def put(name: str, path: str, headers: Any = None) -> requests.Response:
        address = f"{url}/{name}/file?path={path}"
        return requests.put(address, json={"content": "x"}, headers=headers, auth=login, timeout=10)

    assert requests.get(f"{url}/ours", auth=login, timeout=10).status_code == 404
    assert put("ours", "/etc/x").status_code == 500, "there is no such overlay, and it is made"
    assert requests.get(f"{url}/ours", auth=login, timeout=10).json() == {"files": [], "site": True}
    assert requests.put(f"{url}/ours", auth=login, timeout=10).status_code == 409
    assert put("ours", "/etc/a%252Bb").json()["files"] == ["/etc/a+b"] and put("ours", "/etc/c%2Bd").status_code == 200
    assert "/etc/c d" in requests.get(f"{url}/ours", auth=login, timeout=10).json()["files"], "decoded twice"
    assert put("ours", "/etc/a%252Bb", {"If-None-Match": "*"}).status_code == 500
    assert requests.get(f"{url}/ours/file?path=/nosuch", auth=login, timeout=10).status_code == 500
    assert not requests.get(f"{url}/hosts", auth=login, timeout=10).json()["site"]
    assert put("hosts", "/etc/x").json() == {"files": ["/etc/issue.ww", "/etc/x"], "site": True}, "a copy of it"


def test_its_command_fails_after_a_write_as_the_real_one_did(server: WarewulfServer, tmp_path: Path) -> None:
    """Where no service can be restarted: what it wrote is written, and it exits with 255."""
    program = server.host.installed(server.url, tmp_path)

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(program), *argv], capture_output=True, text=True, timeout=30, check=False)

    told = demanded("provisioners/warewulf").joinpath("wwctl_4.7.0_measured.txt").read_text("utf-8")
    assert f"{wwctl.RELOAD}  rc=255" in told
    archive = tmp_path / "a.tar"
    archive.write_bytes(b"a")
    server.host.archives[hashlib.sha256(b"a").hexdigest()] = image()
    server.host.systemd = False
    first, again = (run("image", "import", str(archive), "u26") for _time in range(2))
    assert (first.returncode, first.stderr) == (255, wwctl.RELOAD) and "u26" in server.config.images
    assert again.returncode == 255 and "image name exists" in again.stderr
    server.host.template = "static"
    assert run("configure", "dhcp").returncode == 255 and MACS[0] in server.host.dhcp_conf.read_text()
    assert run("power", "on").returncode == 255, "which it is never asked for"
    server.host.enabled = False
    off = run("configure", "dhcp")
    assert (off.returncode, off.stdout) == (0, "") and off.stderr.startswith("WARN")
