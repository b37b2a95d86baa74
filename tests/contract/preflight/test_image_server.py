# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the image, as the site's own authority vouches for it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing

import pytest
import trustme
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_files as files
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_settings as settings
from contract.trust.conftest import Web
from sound_site import SoundSite


@pytest.fixture
def web(site: SoundSite) -> Iterator[Web]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(site.folder / "ca.pem"))
    with closing(Web(site.image.folder)) as server:
        server.over_tls(context)
        yield server


def test_u2_an_image_server_with_the_sites_own_authority_needs_its_path_in_the_image(site: SoundSite, web: Web) -> None:
    site.shared["gpufleet_image"] = site.image.declared(base=web.url)
    told = site.told(files.image)
    assert told and all("set ca_path in gpufleet_image" in f"{one['what']} {one['do']}" for one in told), told
    site.shared["gpufleet_image"]["ca_path"] = str(site.folder / "ca.pem")
    assert site.told(settings.look, files.image) == []


def test_u2_a_path_that_begins_at_home_is_read_as_the_run_reads_it(
    site: SoundSite, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(site.folder))
    site.shared["gpufleet_image"] = site.image.declared(base=web.url, ca_path="~/ca.pem")
    assert site.told(settings.look, files.image) == []


@pytest.mark.parametrize("url", ["http://images:port/hpc.raw", "https:///hpc.raw", "http://ima ges/x", "http://[::1/x"])
def test_u8_an_address_of_an_image_that_is_none_is_the_sites_and_no_server_that_is_away(
    site: SoundSite, url: str
) -> None:
    site.shared["gpufleet_image"] = site.image.declared(url=url)
    told = site.told(files.image)
    mine = [one for one in told if url in f"{one['what']} {one['seen']}"]
    assert mine and {one["kind"] for one in told} == {"site"}, told
    assert all("correct the URL in gpufleet_image" in f"{one['what']} {one['do']}" for one in mine), mine
