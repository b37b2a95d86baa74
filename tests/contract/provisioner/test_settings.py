# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the connection is the site's mistake is told at once, and an outage with why."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import NODE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer, cause
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from requests.exceptions import ConnectionError as Broken
from urllib3.exceptions import MaxRetryError, NameResolutionError

DRIVERS = ("ironic", "maas", "warewulf")


def enrol(driver: str, /, **more: Any) -> None:
    params = {option: about.get("default") for option, about in NODE_SPEC.items()}
    params.update(provisioner=driver, provisioner_api_key="a:b:c", state="enrolled", name="gpu001")
    params.update(provisioner_username="fleet", provisioner_password="s3cret")
    params.update(bmc_address="192.0.2.1", bmc_username="u", bmc_password="p", boot_mac="02:00:00:00:00:01", **more)
    node(params, Context(node="gpu001", check_mode=True))


@pytest.fixture
def closed() -> int:
    """A port at which nobody is."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_u8_a_file_of_authorities_that_is_none_is_a_setting_and_not_waited_for(
    driver: str, content: str | None, closed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "AWAY_SECONDS", 10**6)
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="gpufleet_provisioner_ca_path") as told:
        enrol(driver, provisioner_url=f"https://127.0.0.1:{closed}", provisioner_ca_path=str(path))
    assert told.value.seen == str(path)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "url", ["10.0.0.5:5240/MAAS", "https:///MAAS", "http://maas:port/MAAS", "https:/maas", "http://a b"]
)
def test_u8_an_address_that_is_none_is_a_setting_and_not_waited_for(
    driver: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "AWAY_SECONDS", 10**6)
    with pytest.raises(ConfigError, match="gpufleet_provisioner_url") as told:
        enrol(driver, provisioner_url=url)
    assert told.value.seen == url


@pytest.mark.parametrize("driver", ["ironic", "maas", "warewulf", "xcat"])
@pytest.mark.parametrize("url", ["http://mn.invalid:9873/x", "HTTP://mn.invalid/x", "http://localhost@mn.invalid/x"])
def test_a_login_goes_nowhere_in_clear(driver: str, url: str) -> None:
    """Passwords of BMCs would go with it."""
    with pytest.raises(ConfigError, match="in clear") as told:
        enrol(driver, provisioner_url=url)
    assert "https:// into gpufleet_provisioner_url" in told.value.do


@pytest.mark.parametrize("driver", DRIVERS)
def test_u8_who_does_not_answer_is_told_with_why(driver: str, closed: int) -> None:
    with pytest.raises(Unreachable, match="does not answer") as told:
        enrol(driver, provisioner_url=f"http://127.0.0.1:{closed}/{'long/' * 200}")
    assert "Connection refused" in told.value.seen and "long/" not in told.value.seen, told.value.seen


def test_u8_a_name_that_is_not_known_is_told_as_that() -> None:
    """As requests and urllib3 say it, who name the address and the request first."""
    lookup = NameResolutionError("maas.example", None, socket.gaierror(-2, "Name or service not known"))  # type: ignore[arg-type]
    exc = Broken(MaxRetryError(None, f"/{'long/' * 200}", lookup))  # type: ignore[arg-type]
    seen = Peer("MAAS", "", "", "").unreached("https://maas.example", exc, cause(exc), timeout=60.0).seen
    assert "Failed to resolve 'maas.example'" in seen and "long/" not in seen


_EACH = {
    "maas": (
        *({"secure_erase": one} for one in ("y", "t", "enabled", "", 2)),
        *({key: "y"} for key in ("is_dpu", "override_failed_testing", "enable_ssh", "ephemeral_deploy")),
        *({"tags": "gpu"}, {"owners": "me"}, {"power_parameters": "x"}),
    ),
    "ironic": (
        *({key: "flase"} for key in ("disable_ramdisk", "automated_clean", "console_enabled")),
        *({"owners": "me"}, {"traits": "CUSTOM_H100"}, {"driver_info": "x"}, {"instance_info": ["x"]}),
    ),
    "warewulf": (
        *({"registry_http": "y"}, {"ipmi": {"login": "t"}, "password_in_overlays": True}),
        *({"owners": "me"}, {"profiles": "a"}),
    ),
}


@pytest.mark.parametrize(("driver", "said"), [(driver, one) for driver, all_of in _EACH.items() for one in all_of])
def test_what_is_said_to_a_driver_in_another_form_is_refused_and_not_read_as_something_else(
    driver: str, said: dict[str, Any], closed: int
) -> None:
    """``y`` was a no to MAAS, and a text the list of its letters. Nobody is asked for anything."""
    with pytest.raises(ConfigError, match="(neither true nor false|no list|no mapping) in driver") as told:
        enrol(driver, provisioner_url=f"http://127.0.0.1:{closed}", driver=said)
    assert list(said)[0] in str(told.value) or "login" in str(told.value)


@pytest.mark.parametrize("value", [True, False, "yes", "No", "on", "off", 1, 0, "1", "true", None])
@pytest.mark.parametrize(("driver", "key"), [("maas", "secure_erase"), ("ironic", "disable_ramdisk")])
def test_what_is_true_or_false_is_taken_as_yaml_and_text_have_it(
    driver: str, key: str, value: Any, closed: int
) -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        enrol(driver, provisioner_url=f"http://127.0.0.1:{closed}", driver={key: value})


@pytest.mark.parametrize("key", ["pol", "description", "root_device"])
def test_properties_that_maas_is_not_told_are_refused_before_anything_is_asked(key: str, closed: int) -> None:
    """The machine would stay in the default pool."""
    properties = {key: "gpu", "zone": "hall-2", "memory_mb": 1}
    with pytest.raises(ConfigError, match=f"unknown keys in properties: {key}.*cpu_arch, pool, zone, domain"):
        enrol("maas", provisioner_url=f"http://127.0.0.1:{closed}/MAAS", properties=properties)
