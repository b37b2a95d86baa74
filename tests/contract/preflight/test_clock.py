# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U2: this machine's clock is held against the provisioner's as well, by the dates of its answers."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from sound_site import SoundSite

#: What each is asked for of nodes that it does not know, by the end of the address.
ANSWERS: dict[str, Any] = {
    "/nodes": {"nodes": []}, "/ports": {"ports": []}, "/drivers": {"drivers": [{"name": "redfish"}]},
    "/machines/": [], "/users/": {"username": "fleet", "is_superuser": True},
    "/boot-resources/": [{"id": 1, "name": "ubuntu/noble", "architecture": "amd64/generic"}],
    "/nodes/": {}, "/images/hpc": {"buildtime": 1, "kernels": ["6.8"]},
}  # fmt: skip
PROVISIONERS = ("ironic", "maas", "warewulf")


class Dated(http.server.ThreadingHTTPServer):
    """Dates its answers by a clock that is ahead by so many seconds; with an age they come out of a cache."""

    daemon_threads = True
    ahead = 0.0
    age = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)


class Answers(http.server.BaseHTTPRequestHandler):
    server: Dated

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body = json.dumps(next((told for end, told in ANSWERS.items() if path.endswith(end)), {})).encode()
        self.send_response_only(200)
        self.send_header("Date", formatdate(time.time() + self.server.ahead, usegmt=True))
        if self.server.age:
            self.send_header("Age", self.server.age)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def dated(site: SoundSite) -> Iterator[Dated]:
    with Dated() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        site.shared.update(
            gpufleet_provisioner_url=f"http://127.0.0.1:{server.server_port}", gpufleet_provisioner_api_key="a:b:c",
            gpufleet_provisioner_username="fleet", gpufleet_provisioner_password="of-the-provisioner",
            gpufleet_image=None,
        )  # fmt: skip
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", PROVISIONERS)
def test_u2_a_clock_that_is_off_the_provisioners_stops_a_run_as_off_the_schedulers(
    site: SoundSite, dated: Dated, name: str
) -> None:
    """One cause for all of its hosts, in the limit of each; an hour is no time zone in a date of HTTP."""
    site.shared["gpufleet_provisioner"] = name
    assert site.told(services.provisioner) == []
    for ahead, words in ((60.0, " s ahead"), (-3600.0, " s behind")):
        dated.ahead = ahead
        [cause] = site.told(services.provisioner)
        assert (cause["check"], cause["kind"], len(cause["hosts"])) == ("clock", "site", 3), cause
        assert words in cause["seen"] and name in cause["what"] and "date -u" in cause["do"], cause
    site.hosts["gpu001"]["baseline_max_clock_skew"] = 4000
    [cause] = site.told(services.provisioner)
    assert cause["hosts"] == ["gpu002", "gpu003"]


@pytest.mark.parametrize("name", PROVISIONERS)
def test_u2_an_answer_out_of_a_cache_tells_nobodys_clock(site: SoundSite, dated: Dated, name: str) -> None:
    site.shared["gpufleet_provisioner"] = name
    dated.ahead, dated.age = -3600.0, "3600"
    assert site.told(services.provisioner) == []
