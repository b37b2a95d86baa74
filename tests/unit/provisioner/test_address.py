# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U8: of an address that is none a message shows enough to find it by, and nothing that may be a login or a token."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _tls as tls
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
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
