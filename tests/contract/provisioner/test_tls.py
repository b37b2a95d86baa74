# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS to a provisioner: the CA that the inventory names, and nothing that the environment says."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from calls import lead
from contract.proxy import Proxy


@pytest.fixture
def ca(tmp_path: Path) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    return made


@pytest.fixture
def secure(service: Any, ca: trustme.CA) -> Iterator[Proxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    proxy = Proxy(service.connection()["provisioner_url"], context)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTPS_PROXY"])
def test_the_environment_decides_nothing(
    service: Any, secure: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9" if "PROXY" in variable else str(tmp_path / "other.pem"))
    options = {**service.new(), "provisioner_url": secure.url, "provisioner_ca_path": str(tmp_path / "ca.pem")}
    assert lead(options, "enrolled", check=True)["changed"]


def test_a_certificate_of_another_ca_is_refused(
    service: Any, secure: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**service.new(), "provisioner_url": secure.url}
    for trusted, bundle in ((str(tmp_path / "other.pem"), "ca.pem"), (None, "ca.pem")):
        # Not even where the environment would vouch for it.
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / bundle))
        with pytest.raises(Unreachable, match="gpufleet_provisioner_ca_path"):
            lead({**options, "provisioner_ca_path": trusted}, "enrolled", check=True)
    assert secure.asked == []
