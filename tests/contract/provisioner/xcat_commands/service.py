# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT by its web service, as the contract suite sees it: who is deployed there is booted by others."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.driver import XcatServiceDriver
from contract.faults import Call, HttpFaults
from contract.proxy import Proxy

from .site import XcatSite
from .web import PASSWORD, USER, Web


class XcatwsSite(XcatSite):
    label = "xcatws"
    own_way = XcatServiceDriver
    own_tls = True
    tells_bmc = True
    #: Comments are asked for by themselves.
    blocks_of_60 = 2
    many_calls = False
    secrets = (*XcatSite.secrets, PASSWORD)
    extras: ClassVar[dict[str, Any]] = {**XcatSite.extras, "password_in_logs": True}
    destructive_words = ("nodeset", "usercomment: given", "rpower", "chdef -z")
    rights = ("chdef", "nodeset")

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.service = Web(self.management)
        self.proxy = Proxy(self.service.url)
        self.faults: Any = _Faults(self.proxy, self.service.denied)

    def close(self) -> None:
        super().close()
        self.proxy.close()
        self.service.shutdown()
        self.service.server_close()

    def connection(self) -> dict[str, Any]:
        login = {"provisioner_username": USER, "provisioner_password": PASSWORD}
        return {"provisioner": self.name, "provisioner_url": self.proxy.url, **login}

    def wrong_login(self) -> dict[str, Any]:
        return {"provisioner_password": "not-th1s-one"}

    def nowhere(self) -> dict[str, Any]:
        return {"provisioner_url": "http://127.0.0.1:9/xcatws"}

    def without(self, right: str) -> dict[str, Any]:
        self.service.denied.add(right)
        return {}

    def boot(self, name: str) -> None:
        assert self.management.boot_lines.get(name), "nothing to boot"
        self.management.boots_by_its_bmc(name)

    def deployments(self) -> int:
        """Orders that became complete: the word of it stands in a comment that was without it."""
        complete: dict[str, bool] = {}
        count = 0
        for one in self.proxy.writes:
            if b"usercomment" in one.body:
                given = b"given:yes" in one.body
                count += given and not complete.get(one.path, False)
                complete[one.path] = given
        return count


class _Faults(HttpFaults):
    """A right that was taken away is one of them."""

    def __init__(self, proxy: Proxy, denied: set[str]) -> None:
        super().__init__(proxy)
        self._denied = denied

    @property
    def reads(self) -> list[Call]:
        """A login is no look."""
        return [call for call in super().reads if not call.what.endswith("/tokens")]

    def forget(self) -> None:
        super().forget()
        self._denied.clear()
