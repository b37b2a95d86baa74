# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who we are at an API server, and which one that is."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import access, api
from contract.proxy import Proxy
from fake_bmc.tls import Authority
from kube_server.server import KubeServer


def of(**options: Any) -> access.Access:
    return access.of_options({**dict.fromkeys(names.OPTIONS, ""), **options})


def kubeconfig(
    folder: Path, user: dict[str, Any], cluster: Any = None, contexts: int = 1, *, as_json: bool = False
) -> str:
    content = {
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://k8s:6443"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": f"x{number}", "context": {"cluster": "c", "user": "u"}} for number in range(contexts)],
        "current-context": "x1",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content) if as_json else yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def test_nothing_is_taken_that_was_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "t0ken"}))
    with pytest.raises(ConfigError, match="which API server"):
        of()
    with pytest.raises(ConfigError, match="two clusters"):
        of(scheduler_conf="/x", scheduler_url="https://k8s")


def test_in_a_pod_its_own_account_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setattr(access, "ACCOUNT", str(tmp_path))
    (tmp_path / "token").write_text("of-the-pod\n")
    found = of()
    assert (found.address, found.token(), found.ca_path) == (
        "https://[fd00::1]:6443",
        "of-the-pod",
        f"{tmp_path}/ca.crt",
    )
    (tmp_path / "token").write_text("the-next")
    assert found.token() == "the-next", "it is renewed within the hour"


@pytest.mark.parametrize("as_json", [False, True])
def test_of_several_contexts_one_is_to_be_named(tmp_path: Path, as_json: bool) -> None:
    path = kubeconfig(tmp_path, {"token": "t0ken"}, contexts=2, as_json=as_json)
    with pytest.raises(ConfigError, match="2 contexts: x0, x1"):
        of(scheduler_conf=path)
    found = of(scheduler_conf=path, scheduler_context="x1")
    assert found.address == "https://k8s:6443" and found.token() == "t0ken"
    with pytest.raises(ConfigError, match="0 contexts named x9"):
        of(scheduler_conf=path, scheduler_context="x9")


def test_a_token_is_read_anew_wherever_it_stands(tmp_path: Path) -> None:
    found = of(scheduler_conf=kubeconfig(tmp_path, {"token": "first"}))
    kubeconfig(tmp_path, {"token": "second"})
    assert found.token() == "second"
    found = of(scheduler_conf=kubeconfig(tmp_path, {"tokenFile": "beside"}))
    (tmp_path / "beside").write_text("of-a-file")
    assert found.token() == "of-a-file"
    (tmp_path / "own").write_text("own")
    assert of(scheduler_conf=kubeconfig(tmp_path, {}), scheduler_token_path=f"{tmp_path}/own").token() == "own"


@pytest.mark.parametrize(
    "user", [{"exec": {"command": "aws"}}, {"auth-provider": {"name": "gcp"}}, {"username": "x"}, {"as": "root"}]
)
def test_what_would_run_a_program_or_make_us_another_is_refused(tmp_path: Path, user: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="which no run does"):
        of(scheduler_conf=kubeconfig(tmp_path, user))


def test_a_token_goes_to_nobody_whose_certificate_is_not_verified(tmp_path: Path) -> None:
    cluster = {"server": "https://k8s", "insecure-skip-tls-verify": True}
    with pytest.raises(ConfigError, match="to whoever answers"):
        of(scheduler_conf=kubeconfig(tmp_path, {"token": "t0ken"}, cluster))
    with pytest.raises(ConfigError, match="in clear"):
        api.Api(of(scheduler_url="http://k8s.example.com:8080", scheduler_token="t0ken"))


@pytest.mark.parametrize("text", ["a: [", "- x", "{}", "clusters: 7", "clusters: [7]", "clusters: []\ncontexts: [{}]"])
def test_a_broken_kubeconfig_shows_nothing_of_itself(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(f"{text}\n# s3cret-key", encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        of(scheduler_conf=str(path))
    assert str(path) in str(told.value) and "s3cret" not in str(told.value)


@pytest.mark.parametrize("content", ["", "two words", "line\nbreak", "\u00e4"])
def test_a_file_without_a_token_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError):
        of(scheduler_url="https://k8s", scheduler_token_path=f"{tmp_path}/token").token()


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_a_certificate_of_ours_lets_us_in_and_no_other_authority_is_believed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As kubeadm writes it: authority, certificate and key in the file itself."""
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    server = KubeServer({"": "gpufleet"})
    request.addfinalizer(server.close)
    context = ours.server_context("127.0.0.1")
    context.verify_mode = 2  # ssl.CERT_REQUIRED
    context.load_verify_locations(str(ours.path))
    proxy = Proxy(server.url, context)
    request.addfinalizer(proxy.close)
    cert, key = (Path(one) for one in ours.issue("gpufleet"))
    user = {"client-certificate-data": encoded(cert), "client-key-data": encoded(key)}

    def asked(authority: Authority, **more: Any) -> Any:
        cluster = {"server": proxy.url, "certificate-authority-data": encoded(Path(authority.path)), **more}
        return api.Api(of(scheduler_conf=kubeconfig(tmp_path, user, cluster))).get("/api/v1/nodes")

    assert asked(ours)["kind"] == "NodeList"
    with pytest.raises(FleetError) as told:
        asked(other)
    assert told.value.kind == "unreachable" and "authority" in told.value.do
    with pytest.raises(FleetError, match="for another name"):
        asked(ours, **{"tls-server-name": "k8s.example.com"})
    user.clear()
    with pytest.raises(FleetError):
        asked(ours)


def test_a_proxy_of_the_environment_is_asked_as_kubectl_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy:3128")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, ".inside.example.com")
    found = api._proxies("https://k8s.example.com:6443", "")
    assert found["https"] == "http://proxy:3128"
    assert api._proxies("https://k8s.inside.example.com", "") == {} == api._proxies("https://127.0.0.1:6443", "")
    assert api._proxies("https://k8s", "http://other:8080")["https"] == "http://other:8080"
