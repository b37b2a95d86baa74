# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U8: of an address that is none a message shows enough to find it by, and nothing that may be a login or a token."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _tls as tls
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.link import host_and_port
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import one_bmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record as ironic
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record as maas
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.driver import WarewulfDriver
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_ironic import _bmc
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import tried
from hypothesis import given
from hypothesis import strategies as st

SETTING = "gpufleet_provisioner_url"
SECRET = "S3cr3tW0rd"
BEFORE = st.sampled_from(["", "http:", "https:/", "http://", "https:///", "htp://", "http:// ", "://", "[", "http://["])
#: With all that parts a URL into its parts.
AROUND = st.text(alphabet="abz09:@/?#[] %&=.\n\\é", max_size=12)


def told(url: str) -> str:
    with pytest.raises(ConfigError) as refused:
        tls.demand_url(url, SETTING)
    assert refused.value.do == f"correct {SETTING}" and refused.value.__context__ is None
    return str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "admin:s3cret@maas:5240/MAAS",
        "https:/admin:s3cret@maas:5240/MAAS",
        "http://admin:s3 cret@maas:5240/MAAS",
        "http://ad@min:s3@cret@maas:5240/MAA S",
        "http://admin:s3cret@maas:5240/MAAS?token=x y",
    ],
)
def test_u8_a_login_in_an_address_that_is_none_is_not_shown_and_the_host_is(url: str) -> None:
    message = told(url)
    assert "maas:5240/MAA" in message and "cret" not in message and "admin" not in message and "token" not in message


@pytest.mark.parametrize("url", ["maas:5240/MAAS", "http://maas:port/MAAS", "http://ma as/MAAS", "http://[::1/MAAS"])
def test_u8_an_address_without_a_login_is_shown_as_it_is(url: str) -> None:
    assert url in told(url) and "*" not in told(url)


@tried(300)
@given(BEFORE, AROUND, AROUND, AROUND)
def test_u8_no_password_in_whatever_is_no_address_is_shown(before: str, user: str, around: str, rest: str) -> None:
    """It stands before an "@", with any sign in it."""
    with contextlib.suppress(ConfigError):
        tls.demand_url(f"{before}{user}:{around}{SECRET}{around}@maas{rest}", SETTING)
        return
    assert SECRET not in told(f"{before}{user}:{around}{SECRET}{around}@maas{rest}")


@tried(100)
@given(BEFORE, AROUND, AROUND)
def test_u8_no_token_in_the_query_of_whatever_is_no_address_is_shown(before: str, path: str, rest: str) -> None:
    with contextlib.suppress(ConfigError):
        tls.demand_url(f"{before}ma as/{path}?x={SECRET}{rest}", SETTING)
        return
    assert SECRET not in told(f"{before}ma as/{path}?x={SECRET}{rest}")


# -- of a BMC -----------------------------------------------------------------------------------------------------

#: As inventories spell one, and the host and the port that are meant.
SPELLED = {
    "10.0.0.7": ("10.0.0.7", ""), "bmc-7.example:8443": ("bmc-7.example", "8443"), "fd00::1": ("fd00::1", ""),
    "[fd00::1]": ("fd00::1", ""), "[fd00::1]:8443": ("fd00::1", "8443"), "https://fd00::1": ("fd00::1", ""),
    "https://[fd00::1]/redfish/v1": ("fd00::1", ""), "http://10.0.0.7:8443": ("10.0.0.7", "8443"),
}  # fmt: skip
LOGIN = {"bmc_username": "root", "bmc_password": SECRET}


def of_bmc(address: str, protocol: str) -> Wanted:
    return Wanted(host="gpu001", bmc={"bmc_address": address, "bmc_protocol": protocol, **LOGIN})


@pytest.mark.parametrize("address", SPELLED)
def test_u8_however_the_address_of_a_bmc_is_spelled_each_record_has_it_and_reads_it_as_its_own(address: str) -> None:
    host, port = SPELLED[address]
    in_url = f"[{host}]" if ":" in host else host
    netloc = f"{in_url}:{port}" if port else in_url
    assert link.base_url(address).partition("://")[2] == netloc
    assert host_and_port(address) == (host, int(port or 623))
    info = ironic.driver_info(of_bmc(address, "ipmi"))
    assert (info["ipmi_address"], info["ipmi_port"]) == (host, port or "623")
    own = [ironic.bmc_in(info), ironic.bmc_in(ironic.driver_info(of_bmc(address, "redfish")))]
    assert own[1][0].partition("://")[2] == netloc
    parameters = maas.power_parameters(of_bmc(address, "redfish"))
    assert parameters["power_address"] == netloc
    own.append((parameters["power_address"], ""))
    if not port:
        own.append((maas.power_parameters(of_bmc(address, "ipmi"))["power_address"], ""))
    for told in own:
        assert one_bmc.same_bmc(told, {"bmc_address": address}), told
        assert not one_bmc.same_bmc(told, {"bmc_address": "fd00::1:623"}), told
    inventory = _bmc("ipmi", info)["gpufleet_bmc_address"]
    assert host_and_port(inventory) == (host, int(port or 623))


@pytest.mark.parametrize("told", [{"ipaddr": "fd00::1", "port": "623"}, {"ipaddr": "fd00::1"}])
def test_u8_a_bmc_of_warewulf_is_read_with_its_port(told: dict[str, str]) -> None:
    there = NodeState("gpu001", "gpu001", "", "ready", raw={"node": {"ipmi": told}})
    reached = WarewulfDriver.bmc(None, there)  # type: ignore[arg-type]
    assert one_bmc.same_bmc(reached, {"bmc_address": "fd00::1"})
    assert not one_bmc.same_bmc(reached, {"bmc_address": "fd00::1:623"})


@pytest.mark.parametrize(
    "address",
    ["10.0.0.7:port", "10.0.0.7:99999", "[fd00::1", "https://", f"root:{SECRET}@10.0.0.7", "gpu001::bmc", "10.0.0.7:0"],
)
@pytest.mark.parametrize("protocol", ["redfish", "ipmi"])
def test_u8_what_is_no_address_of_a_bmc_is_in_no_record(address: str, protocol: str) -> None:
    calls = (
        lambda: ironic.driver_info(of_bmc(address, protocol)),
        lambda: maas.power_parameters(of_bmc(address, protocol)),
        lambda: host_and_port(address) if protocol == "ipmi" else link.base_url(address),
    )
    for call in calls:
        with pytest.raises(ConfigError, match="the BMC's address cannot be used") as refused:
            call()
        assert SECRET not in str(refused.value) and "gpufleet_bmc_address" in refused.value.do
