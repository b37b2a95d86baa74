# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the Ironic driver that a real Ironic holds as well, and more slowly: over a small server that notes writes.

What Ironic itself says and does is held by ``tests/contract/provisioner``.
"""

from __future__ import annotations

import http.server
import json
import re
import ssl
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.driver import IronicDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline

IMAGE = {"name": "hpc", "version": "1.4", "url": "http://x/hpc", "sha256": "a" * 64, "format": "whole-disk"}
NODE = {"uuid": "u-1", "name": "n1", "provision_state": "available", "provision_updated_at": "t1"}
RAMDISK = {"format": "ramdisk", "kernel_url": "http://x/vmlinuz"}
SECRET = "hunter2-of-the-bmc"
Answer = Callable[[str, str, dict[str, list[str]]], tuple[int, Any]]


class Server:
    """Answers as it is told, and keeps what was written."""

    def __init__(self, answer: Answer, context: Optional[ssl.SSLContext] = None) -> None:
        self.written: list[tuple[str, str, Any]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                parts = urlsplit(self.path)
                if self.command != "GET":
                    outer.written.append((self.command, parts.path, body))
                status, content = answer(self.command, parts.path.removeprefix("/v1"), parse_qs(parts.query))
                data = json.dumps(content).encode() if content is not None else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Line(Lifeline):
    def __init__(self) -> None:
        self.asked: list[tuple[str, bool, tuple[str, ...]]] = []

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> None:
        self.asked.append((what, destructive, nodes))


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def one(answer: Answer, context: Optional[ssl.SSLContext] = None) -> Server:
        made.append(Server(answer, context))
        return made[-1]

    yield one
    for server in made:
        server.close()


def driver(url: str = "http://127.0.0.1:9", line: Optional[Lifeline] = None, **params: Any) -> IronicDriver:
    return IronicDriver({"provisioner_url": url, **params}, Context(lifeline=line))


def wanted(**more: Any) -> Wanted:
    return Wanted(host="n1", name="n1", image=Image.of({**IMAGE, **more.pop("image", {})}), **more)


# -- whose it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "foreign"),
    [
        ({}, ""),
        ({"maintenance": True, "maintenance_reason": "gpufleet:r1:work"}, ""),
        ({"maintenance": True, "maintenance_reason": "bad DIMM"}, "in maintenance: bad DIMM"),
        ({"maintenance": True}, "in maintenance: no reason given"),
        ({"owner": "project-1"}, "owner is project-1"),
        ({"lessee": "tenant-1"}, "lessee is tenant-1"),
        ({"instance_uuid": "i-1"}, "it serves the instance i-1"),
        ({"protected": True, "protected_reason": "mine"}, "protected: mine"),
        ({"retired": True}, "retired: no reason given"),
    ],
)
def test_t1_a_node_that_somebody_has_is_theirs(more: dict[str, Any], foreign: str) -> None:
    assert driver().state_of({**NODE, **more}).foreign == foreign


FAILED = {
    "provision_state": "clean failed",
    "maintenance": True,
    "fault": "clean failure",
    "last_error": "no_such_step",
}


@pytest.mark.parametrize(
    ("reason", "foreign"),
    [
        ("no_such_step", ""),
        ("carol: swaps the riser", "in maintenance (clean failure): carol: swaps the riser"),
        ("no_such_step, carol looks into it", "in maintenance (clean failure): no_such_step, carol looks into it"),
        ("", "in maintenance (clean failure): no reason given"),
        (None, "in maintenance (clean failure): no reason given"),
    ],
)
def test_h3_only_what_ironic_itself_wrote_of_a_failed_cleaning_is_nobodys(reason: Any, foreign: str) -> None:
    assert driver().state_of({**NODE, **FAILED, "maintenance_reason": reason}).foreign == foreign


@pytest.mark.parametrize("error", ["", None])
def test_h3_an_empty_reason_is_not_ironics(error: Any) -> None:
    assert driver().state_of({**NODE, **FAILED, "maintenance_reason": "", "last_error": error}).foreign


def test_t1_an_owner_that_is_named_as_ours_is_ours() -> None:
    mine = driver(driver={"owners": ["project-1"]})
    assert mine.state_of({**NODE, "owner": "project-1"}).foreign == ""
    assert mine.state_of({**NODE, "lessee": "project-2"}).foreign


# -- what runs there -------------------------------------------------------------------------------------------------


def current(noted: Any, beside: Sequence[str] = (), **image: Any) -> bool:
    want = wanted(image=image)
    assert want.image is not None
    info = {**record.instance_info(want.image, {}, "n1"), **dict.fromkeys(beside, "x")}
    node = driver().state_of({**NODE, "instance_info": info, "extra": {record.EXTRA_IMAGE: noted} if noted else {}})
    return driver().facts(node, want)["image_current"]


@pytest.mark.parametrize("kind", [RAMDISK, {}])
def test_j7_the_deployment_is_told_by_what_ends_with_it(kind: dict[str, str]) -> None:
    """The note in extra outlives it."""
    image = wanted(image={**kind, "deploy_id": "d1"}).image
    assert image is not None
    node = {
        **NODE,
        "instance_info": record.instance_info(image, {}, "n1"),
        "extra": {record.EXTRA_IMAGE: {"deploy_id": "d0"}},
    }
    assert driver().state_of(node).deploy_id == "d1"
    assert driver().state_of({**node, "instance_info": {}}).deploy_id == ""


def test_t1_a_node_runs_what_was_noted_and_begun() -> None:
    identity = wanted(image={"deploy_id": "d1"}).image.identity()  # type: ignore[union-attr]
    assert current({**identity, "before": "t0"}, deploy_id="d1")
    assert not current({**identity, "before": "t1"}, deploy_id="d1"), "noted for a deployment that never began"
    assert not current({**identity, "before": "t0"}, deploy_id="d2")
    assert not current({**identity, "before": "t0", "version": "1.3"}, deploy_id="d1")
    assert current(None) and not current(None, deploy_id="d1")


@pytest.mark.parametrize("key", ["ramdisk_kernel_arguments", "kernel_append_params", "configdrive", "boot_iso"])
def test_v9_an_image_beside_which_something_else_stands_is_not_the_one_that_was_verified(key: str) -> None:
    noted = {**wanted(image=RAMDISK).image.identity(), "before": "t0"}  # type: ignore[union-attr]
    assert not current(noted, [key], **RAMDISK)
    assert current(noted, ["image_type"], **RAMDISK), "Ironic's own finding"


def test_c1_a_config_drive_is_expected_where_the_deployment_brought_one() -> None:
    """Ironic masks what is in it, so that there is no more to compare."""
    identity = wanted(image={"deploy_id": "d1"}).image.identity()  # type: ignore[union-attr]
    assert current({**identity, "before": "t0"}, ["configdrive"], deploy_id="d1")
    assert current({**identity, "before": "t0"}, ["configdrive"]), "any deployment will do"
    assert not current({**wanted().image.identity(), "before": "t0"}, ["configdrive"])  # type: ignore[union-attr]


def test_c1_any_deployment_will_do_whichever_the_command_line_tells() -> None:
    own = {"instance_info": {"ramdisk_kernel_arguments": "quiet"}}
    told = record.instance_info(Image.of({**IMAGE, **RAMDISK, "deploy_id": "d1"}), own, "n1")  # type: ignore[arg-type]
    assert told["ramdisk_kernel_arguments"] == "quiet gpufleet.deploy=d1"
    assert record.without_mark(told) == record.instance_info(Image.of({**IMAGE, **RAMDISK}), own, "n1")  # type: ignore[arg-type]
    written = record.instance_info(Image.of({**IMAGE, "deploy_id": "d1"}), {}, "n1")  # type: ignore[arg-type]
    assert record.without_mark(written) == record.instance_info(Image.of(IMAGE), {}, "n1") != written  # type: ignore[arg-type]


def test_c1_an_id_that_a_command_line_would_not_leave_as_it_is_goes_nowhere() -> None:
    with pytest.raises(ConfigError, match="kernel's command line"):
        record.instance_info(Image.of({**IMAGE, **RAMDISK, "deploy_id": "a b=c"}), {}, "n1")  # type: ignore[arg-type]


def test_c1_a_drive_of_the_sites_own_tells_the_deployment_as_well() -> None:
    image = Image.of({**IMAGE, "deploy_id": "d1"})
    assert image is not None
    own = {"instance_info": {"configdrive": {"meta_data": {"a": "b"}, "user_data": "#!/bin/sh"}}}
    told = {"meta_data": {"a": "b", "gpufleet": "gpufleet.deploy=d1"}, "user_data": "#!/bin/sh"}
    assert record.config_drive(image, own) == {"configdrive": told}
    assert record.config_drive(image, {"instance_info": {"configdrive": "H4sIAAA"}}) == {}, "built already"


# -- writes ----------------------------------------------------------------------------------------------------------


def taken(method: str, path: str, query: Any) -> tuple[int, Any]:
    return (200, {"ports": []} if path == "/ports" else NODE) if method == "GET" else (202, None)


@pytest.mark.parametrize(("step", "destructive"), [("deploy", True), ("undeploy", True), ("rebuild", True)])
def test_t1_what_wipes_a_disk_asks_for_a_permit_of_its_node(
    serve: Callable[..., Server], step: str, destructive: bool
) -> None:
    server, line = serve(taken), Line()
    mine = driver(server.url, line)
    mine.start(step, mine.state_of(NODE), wanted())
    what, asked, nodes = line.asked[-1]
    assert "states/provision" in what and asked is destructive and nodes == ("n1",)
    assert server.written[-1][2]["target"] in ("active", "deleted", "rebuild")


@pytest.mark.parametrize(("erase", "cleaned"), [(True, True), (False, False)])
def test_t1_a_disk_is_erased_where_that_was_asked_for(serve: Callable[..., Server], erase: bool, cleaned: bool) -> None:
    def answer(method: str, path: str, query: Any) -> tuple[int, Any]:
        return (200, NODE) if method == "PATCH" else taken(method, path, query)

    server = serve(answer)
    mine = driver(server.url)
    mine.start("undeploy", mine.state_of(NODE), wanted(erase=erase))
    patches = [body for method, _path, body in server.written if method == "PATCH"]
    assert (patches == [[{"op": "add", "path": "/automated_clean", "value": True}]]) is cleaned
    assert bool(patches) is cleaned


@pytest.mark.parametrize(("status", "kind"), [(400, Refused), (403, Refused), (404, Refused), (401, AuthFailed)])
def test_t1_a_write_that_was_refused_was_not_taken(
    serve: Callable[..., Server], status: int, kind: type[FleetError]
) -> None:
    refused = {"error_message": {"faultstring": "no"}}
    server = serve(lambda method, path, query: (200, NODE) if method == "GET" else (status, refused))
    mine = driver(server.url)
    with pytest.raises(kind):
        mine.hold(mine.state_of(NODE), "gpufleet:r1:work", wanted())


def test_t1_nodes_of_every_page_are_seen(serve: Callable[..., Server]) -> None:
    def pages(method: str, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if query.get("marker") == ["u-1"]:
            return 200, {"nodes": [{**NODE, "uuid": "u-2", "name": "n2"}]}
        return 200, {"nodes": [NODE], "next": "http://elsewhere/"}

    assert set(driver(serve(pages).url).states(["n1", "n2", "n3"])) == {"n1", "n2"}


def test_t1_no_result_shows_a_password(serve: Callable[..., Server]) -> None:
    bmc = {"bmc_address": "10.0.0.1", "bmc_username": "admin", "bmc_password": SECRET}
    server = serve(lambda method, path, _query: (200, {"nodes": []} if method == "GET" and path == "/nodes" else NODE))
    line = Line()
    mine = driver(server.url, line)
    _node, created = mine.enrol(wanted(bmc=bmc), None)
    old = {**NODE, "driver_info": {"redfish_address": "https://10.0.0.9", "redfish_password": "******"}}
    _node, changed = mine.enrol(wanted(bmc=bmc), mine.state_of(old))
    assert SECRET in str(server.written), "Ironic gets it"
    assert changed.after and created.after
    assert SECRET not in f"{created} {changed} {line.asked}"


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"redfish_address": "https://10.0.0.9", "redfish_system_id": "/redfish/v1/Systems/1"},
         ("https://10.0.0.9", "/redfish/v1/Systems/1")),
        ({"ipmi_address": "10.0.0.9", "ipmi_port": "6230"}, ("10.0.0.9:6230", "")),
        ({"ipmi_address": "10.0.0.9"}, ("10.0.0.9", "")),
        ({}, ("", "")),
    ],
)  # fmt: skip
def test_r3_its_record_tells_the_bmc_also_where_a_list_of_nodes_does_not(
    serve: Callable[..., Server], info: dict[str, str], told: tuple[str, str]
) -> None:
    mine = driver(serve(lambda *request: (200, {**NODE, "driver_info": info})).url)
    assert mine.bmc(mine.state_of(NODE)) == told == driver().bmc(mine.state_of({**NODE, "driver_info": info}))


@pytest.mark.parametrize("image", [{"sha256": ""}, {"format": "ramdisk"}])
def test_n8_an_image_that_it_cannot_deploy_is_told_without_a_question(image: dict[str, str]) -> None:
    """The role oob_ready looks in check mode, before the node is held."""
    mine = driver()
    for node in (None, mine.state_of(NODE)):
        why = mine.undeployable(wanted(image=image), node)
        assert isinstance(why, ConfigError) and ("needs sha256" in str(why) or "needs kernel_url" in str(why))
        assert mine.undeployable(wanted(), node) is None


def test_n8_ironic_can_deploy_the_image_of_the_quick_start() -> None:
    text = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.S)]
    (variables,) = [block for block in blocks if "gpufleet_image" in block]
    image = Image.of(variables["gpufleet_image"])
    assert image is not None and record.instance_info(image, {}, "n1")


# -- TLS -------------------------------------------------------------------------------------------------------------


def test_t1_only_the_authority_that_was_named_vouches_for_ironic(
    serve: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, path = trustme.CA(), tmp_path / "ca.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(path))
    server = serve(lambda *request: (200, {"nodes": [NODE]}), context)
    assert driver(server.url, provisioner_ca_path=str(path)).states(["n1"])
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    with pytest.raises(Unreachable, match="trusted"):
        driver(server.url).states(["n1"])
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    with pytest.raises(Unreachable, match="trusted"):
        driver(server.url, provisioner_ca_path=str(other)).states(["n1"])


def info(**bmc: Any) -> Any:
    login = {"bmc_address": "10.0.0.1", "bmc_username": "admin", "bmc_password": SECRET}
    return record.driver_info(Wanted(host="n1", bmc={**login, **bmc}))["redfish_verify_ca"]


def test_t1_ironic_verifies_the_bmc_unless_it_is_told_not_to() -> None:
    assert info() is True and info(bmc_verify_tls=True) is True
    assert info(bmc_ca_path="/etc/ca.pem") == "/etc/ca.pem"
    assert info(bmc_verify_tls=False, bmc_ca_path="/etc/ca.pem") is False


def test_t1_a_patch_is_told_without_its_values() -> None:
    told = record.told([{"op": "add", "path": "/driver_info/redfish_password", "value": SECRET}])
    assert told == "/driver_info/redfish_password"


def test_t1_ironic_checks_what_it_writes_to_a_disk() -> None:
    image = Image.of({**IMAGE, "sha256": ""})
    assert image is not None
    with pytest.raises(ConfigError, match="sha256"):
        record.instance_info(image, {}, "n1")
    whole = record.instance_info(wanted().image, {}, "n1")  # type: ignore[arg-type]
    assert (whole["image_os_hash_algo"], whole["image_os_hash_value"]) == ("sha256", "a" * 64)


@pytest.mark.parametrize(
    "key",
    ["kernel", "ramdisk", "boot_iso", "stage2", "ks_template", "image_source", "image_checksum", "image_url"]
    + ["image_os_hash_algo", "image_os_hash_value", "image_type", "image_disk_format", "image_of_a_later_release"],
)
def test_v9_an_image_key_of_the_driver_is_not_what_was_verified(key: str) -> None:
    extras = {"instance_info": {"capabilities": "boot_mode:uefi", key: "http://elsewhere/x"}}
    assert driver().other_bytes(wanted(extras=extras)).endswith(f": {key}")
    pairs = {"instance_info": [[key, "http://elsewhere/x"]]}
    assert key in driver().other_bytes(wanted(extras=pairs)), "as instance_info itself takes it"


def test_v9_what_says_nothing_of_the_image_is_taken() -> None:
    taken = ["capabilities", "configdrive", "image_download_source", "image_request_authorization_secret", "root_gb"]
    assert driver().other_bytes(wanted(extras={"instance_info": dict.fromkeys(taken, "x")})) == ""
    assert driver().other_bytes(wanted(extras={"instance_info": None})) == driver().other_bytes(wanted()) == ""
