# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An Ironic behind Keystone, as clouds.yaml names it: an outage of Keystone is one of the provisioner."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import api
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import cloud as clouds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import NODE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract.docs.blocks import blocks

CLOUDS = """
clouds:
  site:
    auth_type: password
    auth: {auth_url: %s, username: u, password: Hunter2-is-long,
           project_name: gpu, user_domain_id: d, project_domain_id: d}
    region_name: %s
"""
PASSWORD, TOKEN = "Hunter2-is-long", "gAAAAABtoken-of-the-cloud"


class Cloud(http.server.ThreadingHTTPServer):
    """Keystone's discovery and its tokens, by its API 3; and an Ironic that has no nodes."""

    daemon_threads = True

    def __init__(self) -> None:
        self.away = 0
        self.login = 201
        self.refuses = 404
        self.portal = False
        #: Path -> what it answers in place of what stands below.
        self.says: dict[str, tuple[int, Any]] = {}
        #: Beginning of a path -> where a redirect of all that begins so leads.
        self.leads: dict[str, str] = {}
        self.asked: list[str] = []
        self.file = Path()
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.ironic = f"{self.url}/baremetal"

    def names(self, path: str = "/v3", region: str = "one") -> None:
        """What clouds.yaml says."""
        self.file.write_text(CLOUDS % (self.url + path, region), encoding="utf-8")

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator[Cloud]:
        with cls() as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()


class Answers(http.server.BaseHTTPRequestHandler):
    server: Cloud

    def do_GET(self) -> None:
        self._told(*self._answer())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._told(*self._answer())

    def _answer(self) -> tuple[int, Any]:
        path = self.path.partition("?")[0]
        self.server.asked.append(f"{self.command} {path}")
        lead = next((to for begin, to in self.server.leads.items() if path.startswith(begin)), "")
        if lead:
            return 307, {"Location": lead + self.path}
        if self.server.portal:
            return 200, None
        if self.server.away:
            self.server.away -= 1
            return 503, {}
        version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{self.server.url}/v3/"}]}
        ironic = {"interface": "public", "region_id": "one", "region": "one", "url": self.server.ironic}
        service = {"type": "baremetal", "name": "ironic", "id": "i", "endpoints": [{**ironic, "id": "e"}]}
        token = {"project": {"id": "p1", "name": "gpu"}, "catalog": [service], "methods": ["password"]}
        token |= {"expires_at": "2999-01-01T00:00:00.0Z", "issued_at": "2026-01-01T00:00:00.0Z"}
        answers: dict[str, tuple[int, Any]] = {
            "/v3": (200, {"version": version}),
            "/v3/auth/tokens": (self.server.login, {"token": token}),
            "/baremetal/v1/ports": (200, {"ports": []}),
            "/baremetal/v1/nodes": (200, {"nodes": []}),
        }
        answers |= self.server.says
        return answers.get(path.rstrip("/"), (self.server.refuses, {}))

    def _told(self, status: int, body: Any) -> None:
        content = b"<!DOCTYPE html><title>Log in</title>" if body is None else json.dumps(body).encode()
        content = b"" if status == 307 else content
        self.send_response(status)
        self.send_header("X-Subject-Token", TOKEN)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        if status == 307:
            self.send_header("Location", body["Location"])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with Cloud.running() as server:
        server.file = tmp_path / "clouds.yaml"
        server.names()
        # The SDK looks for it where the process was when it was loaded.
        monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [str(tmp_path / "clouds.yaml")])
        yield server


def enrol() -> dict[str, Any]:
    params = {option: about.get("default") for option, about in NODE_SPEC.items()}
    params.update(provisioner="ironic", provisioner_cloud="site", state="enrolled", name="gpu001")
    params.update(bmc_address="192.0.2.1", bmc_username="u", bmc_password="p", boot_mac="02:00:00:00:00:01")
    ctx = Context(node="gpu001", check_mode=True)
    return node(params, ctx).as_dict(ctx)


def test_c8_a_keystone_that_is_away_for_a_moment_is_waited_for(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "AWAY_SECONDS", 60.0)
    cloud.away = 6
    assert enrol()["changed"] and "GET /baremetal/v1/ports" in cloud.asked
    assert cloud.asked.count("POST /v3/auth/tokens") > 1, cloud.asked


def test_u8_a_keystone_that_stays_away_is_named_and_no_ironic(cloud: Cloud) -> None:
    cloud.away = 10**6
    with pytest.raises(Unreachable, match="Keystone") as told:
        enrol()
    assert told.value.address == f"{cloud.url}/v3" and len(cloud.asked) > 3


def test_u8_a_login_that_keystone_refuses_is_tried_once(cloud: Cloud) -> None:
    cloud.login = 401
    with pytest.raises(AuthFailed, match="Keystone refused the login") as told:
        enrol()
    assert "clouds.yaml" in told.value.do and cloud.asked.count("POST /v3/auth/tokens") == 1


@pytest.mark.parametrize("scope", ["", "project_name: gpu", "system_scope: all"])
def test_u8_an_application_credential_with_a_scope_is_told_which_word_to_take_out(cloud: Cloud, scope: str) -> None:
    """Keystone refuses it as it does a wrong secret, and says no more (auth/core.py: it "cannot request a scope")."""
    login = f"{{auth_url: {cloud.url}/v3, application_credential_id: a, application_credential_secret: s"
    login += f", user_domain_id: default, project_domain_id: default{scope and ', '}{scope}}}"
    one = f"clouds:\n  site: {{auth_type: v3applicationcredential, region_name: one, auth: {login}}}\n"
    cloud.file.write_text(one, encoding="utf-8")
    cloud.login = 401
    with pytest.raises(AuthFailed, match="Keystone refused the login") as told:
        enrol()
    assert ("an application credential has a project of its own" in told.value.do) is bool(scope), told.value.do
    assert scope.partition(":")[0] in told.value.do and "tried once" in told.value.do


def test_u8_a_certificate_of_ironic_that_nobody_vouches_for_is_mended_where_it_is_read(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable of the inventory says whom to trust behind a Keystone: clouds.yaml does."""
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with Cloud() as behind_tls:
        behind_tls.socket = context.wrap_socket(behind_tls.socket, server_side=True)
        thread = threading.Thread(target=behind_tls.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        cloud.ironic = f"https://127.0.0.1:{behind_tls.server_port}/baremetal"
        with pytest.raises(Unreachable, match="no trusted TLS connection to Ironic") as told:
            enrol()
        behind_tls.shutdown()
        thread.join()
    assert "cacert of the cloud in clouds.yaml" in told.value.do and "gpufleet" not in told.value.do


def test_each_clouds_yaml_of_the_page_is_one_that_keystone_can_take(cloud: Cloud) -> None:
    printed = [yaml.safe_load(one.text) for one in blocks("docs/how-to/ironic.md") if one.text.startswith("clouds:")]
    assert len(printed) == 2, "with a password, and with an application credential"
    for one in printed:
        site = one["clouds"]["site"]
        assert clouds.refused_for(site.get("auth_type", ""), site["auth"]) == ""
        site["auth"]["auth_url"], site["region_name"] = f"{cloud.url}/v3", "one"
        assert site.pop("cacert"), "no variable of the inventory says whom to trust"
        cloud.file.write_text(yaml.safe_dump(one), encoding="utf-8")
        assert enrol()["changed"]


def test_u2_the_file_that_the_environment_names_is_read_and_no_other(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a credential of AWX brings it. The cloud of that name in another file may be another one."""
    usual = cloud.file
    cloud.file = tmp_path / "brought.yaml"
    cloud.names()
    usual.write_text(CLOUDS % ("http://127.0.0.1:9/v3", "one"), encoding="utf-8")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.file))
    monkeypatch.setenv("OS_REGION_NAME", "two")
    assert enrol()["changed"] and cloud.asked
    cloud.file.unlink()
    with pytest.raises(ConfigError, match="no usable cloud site") as told:
        enrol()
    assert told.value.do == f"correct {cloud.file}, which OS_CLIENT_CONFIG_FILE names"


def test_s8_what_lies_in_the_working_folder_says_nothing_of_a_cloud_in_a_file_that_is_named(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK looks there first for a secure.yaml, which it merges into any cloud, and for a vendor's file."""
    folder = tmp_path / "credential"
    folder.mkdir()
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(folder / "brought.yaml"))

    def lies(where: Path, url: str) -> None:
        about = {"auth": {"auth_url": f"{url}/v3", "password": PASSWORD}}
        (where / "secure.yaml").write_text(yaml.safe_dump({"clouds": {"site": about}}), encoding="utf-8")
        (where / "clouds-public.yaml").write_text(yaml.safe_dump({"public-clouds": {"mine": about}}), encoding="utf-8")

    with Cloud.running() as other:
        lies(tmp_path, other.url)
        monkeypatch.setattr("openstack.config.loader.SECURE_FILES", [str(tmp_path / "secure.yaml")])
        monkeypatch.setattr("openstack.config.loader.VENDOR_FILES", [str(tmp_path / "clouds-public.yaml")])
        cloud.file = folder / "brought.yaml"
        cloud.names()
        assert enrol()["changed"] and cloud.asked
        lies(folder, cloud.url)
        brought = yaml.safe_load(cloud.file.read_text(encoding="utf-8"))
        brought["clouds"]["site"]["auth"] = {"username": "u", "project_name": "gpu", "user_domain_id": "d"}
        for rest in ({"profile": "mine"}, {}):
            whole = {"clouds": {"site": {**brought["clouds"]["site"], **rest}}}
            cloud.file.write_text(yaml.safe_dump(whole), encoding="utf-8")
            if rest:
                (folder / "secure.yaml").rename(folder / "kept")
            else:
                (folder / "kept").rename(folder / "secure.yaml")
            assert enrol()["changed"]
        assert other.asked == []


def test_u2_variables_of_openstack_are_no_cloud_of_the_inventory(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts the run has sourced an openrc, and it is named as the cloud that clouds.yaml lacks."""
    cloud.file.write_text("clouds: {}\n", encoding="utf-8")
    openrc = {"CLOUD_NAME": "site", "AUTH_URL": f"{cloud.url}/v3", "USERNAME": "u", "PASSWORD": "p"}
    openrc.update(PROJECT_NAME="gpu", USER_DOMAIN_ID="d", PROJECT_DOMAIN_ID="d", REGION_NAME="one")
    for name, value in openrc.items():
        monkeypatch.setenv(f"OS_{name}", value)
    with pytest.raises(ConfigError, match="no usable cloud site"):
        enrol()
    assert cloud.asked == []


@pytest.mark.parametrize("path", ["/identity", "/v3/wrong"])
def test_u8_an_address_where_no_keystone_is_is_a_wrong_setting_and_not_waited_for(cloud: Cloud, path: str) -> None:
    """Of the first nobody says which API it is; the second is taken for one by its beginning."""
    cloud.names(path=path)
    with pytest.raises(ConfigError, match="no Keystone is there") as told:
        enrol()
    assert (told.value.address, told.value.seen) == (cloud.url + path, "HTTP 404")
    assert told.value.do == "correct auth_url of the cloud site in clouds.yaml" and len(cloud.asked) < 5, cloud.asked


@pytest.mark.parametrize("path", ["/dashboard", "/v3"])
def test_u8_a_portal_in_place_of_a_keystone_is_a_wrong_setting_and_not_waited_for(cloud: Cloud, path: str) -> None:
    """It answers with 200, to whatever it is asked; the second address is taken for a Keystone's by its beginning."""
    cloud.portal = True
    cloud.names(path=path)
    with pytest.raises(ConfigError, match="no Keystone is there") as told:
        enrol()
    assert told.value.address == cloud.url + path and "HTTP 200" in told.value.seen and "<!DOCTYPE" in told.value.seen
    assert told.value.do == "correct auth_url of the cloud site in clouds.yaml" and len(cloud.asked) < 5, cloud.asked


@pytest.mark.parametrize("path", ["/identity", "/v3"])
@pytest.mark.parametrize(("option", "usual", "slow"), [("", 0.3, 0.3), ("    api_timeout: 0.4\n", 60.0, 0.4)])
def test_c8_a_frozen_keystone_ends_a_request_and_the_other_hosts_are_told(
    cloud: Cloud, path: str, option: str, usual: float, slow: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts and says nothing. The library alone has no limit; clouds.yaml may set one."""
    monkeypatch.setattr(api, "TIMEOUT", usual)
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        cloud.url = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        cloud.names(path=path)
        with cloud.file.open("a", encoding="utf-8") as known:
            known.write(option)
        with pytest.raises(Unreachable, match="Keystone") as told:
            enrol()
    assert told.value.details == {"slow": slow}


@pytest.mark.parametrize("status", [429, 503])
def test_c8_a_front_that_asks_for_patience_is_no_wrong_setting(cloud: Cloud, status: int) -> None:
    cloud.names(path="/identity")
    cloud.refuses = status
    with pytest.raises(Unreachable, match="Keystone"):
        enrol()


def test_u8_a_region_that_the_catalog_has_not_is_named(cloud: Cloud) -> None:
    cloud.names(region="two")
    with pytest.raises(ConfigError, match="the cloud site has no service baremetal") as told:
        enrol()
    assert "region_name two" in told.value.seen and "interface" in told.value.seen
    assert "region_name and interface of the cloud in clouds.yaml" in told.value.do


@pytest.mark.parametrize("path", ["/v3", "/identity"])
def test_s8_a_keystone_that_leads_elsewhere_is_not_followed_with_the_login(cloud: Cloud, path: str) -> None:
    with Cloud.running() as other:
        cloud.leads = {"/": other.url}
        cloud.names(path=path)
        with pytest.raises(BadAnswer, match="HTTP 307, a redirect, which is not followed with a login") as told:
            enrol()
    assert (
        other.asked == []
        and other.url in told.value.seen
        and told.value.details == {"setting": "auth_url in clouds.yaml"}
    )


def test_s8_an_ironic_that_leads_elsewhere_is_not_followed_with_the_token(cloud: Cloud) -> None:
    with Cloud.running() as other:
        cloud.leads = {"/baremetal": other.url}
        with pytest.raises(BadAnswer, match="HTTP 307, a redirect, which is not followed with a login") as told:
            enrol()
    assert other.asked == [] and "Keystone's catalog" in told.value.do


def test_s8_what_keystone_repeats_of_the_login_is_shown_nowhere(cloud: Cloud) -> None:
    cloud.says = {"/v3/auth/tokens": (400, {"error": {"code": 400, "message": f"rejected: {PASSWORD} of u"}})}
    with pytest.raises(Refused) as told:
        enrol()
    shown = json.dumps(told.value.as_result())
    assert "rejected: " in shown and PASSWORD not in shown and PASSWORD[:8] not in shown
    secret = "s3cret-of-the-application"
    login = (
        f"{{auth_url: {cloud.url}/v3, application_credential_id: a1b2c3d4, application_credential_secret: {secret}}}"
    )
    one = f"clouds:\n  site: {{auth_type: v3applicationcredential, region_name: one, auth: {login}}}\n"
    cloud.file.write_text(one, encoding="utf-8")
    cloud.says = {"/v3/auth/tokens": (400, {"error": {"code": 400, "message": f"{secret} of a1b2c3d4 is none"}})}
    with pytest.raises(Refused) as told:
        enrol()
    shown = json.dumps(told.value.as_result())
    assert "of a1b2c3d4 is none" in shown and secret not in shown


def test_s8_a_token_that_ironic_repeats_is_shown_nowhere(cloud: Cloud) -> None:
    cloud.says = {
        "/baremetal/v1/ports": (400, {"error_message": json.dumps({"faultstring": f"no such token: {TOKEN}"})})
    }
    with pytest.raises(Refused) as told:
        enrol()
    shown = json.dumps(told.value.as_result())
    assert "no such token: " in shown and TOKEN not in shown


def test_s8_a_clouds_login_goes_nowhere_in_clear(cloud: Cloud) -> None:
    """Where it goes clouds.yaml says, and then Keystone's catalog, whose author may not know that TLS stands there."""
    far = "http://mn.invalid:5000"
    cloud.ironic = f"{far}/baremetal"
    with pytest.raises(ConfigError, match="a login would go to Ironic in clear") as told:
        enrol()
    assert told.value.address.startswith(far) and "catalog" in told.value.do
    cloud.file.write_text(CLOUDS % (f"{far}/v3", "one"), encoding="utf-8")
    with pytest.raises(ConfigError, match="a login would go to Keystone in clear") as told:
        enrol()
    assert told.value.address.startswith(far) and "auth_url" in told.value.do
