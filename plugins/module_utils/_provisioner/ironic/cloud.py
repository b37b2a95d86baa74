# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloud of clouds.yaml that an Ironic behind Keystone is named by. PRIVATE to the collection."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import BoundedAdapter
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, MissingLibrary
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer

#: Names the file, as for all that is OpenStack's; a credential of AWX has no other way to bring one.
FILE = "OS_CLIENT_CONFIG_FILE"

KEYSTONE = Peer(
    "Keystone",
    reach="check auth_url of the cloud in clouds.yaml, the network, and that Keystone runs",
    trust="set cacert of the cloud in clouds.yaml to the CA that vouches for it",
    login="check the cloud's login in clouds.yaml",
    setting="auth_url in clouds.yaml",
)
#: Ironic, where Keystone says where it is. One file vouches for both.
IRONIC = Peer(
    "Ironic",
    reach="check the network, that Ironic runs, and its endpoint in Keystone's catalog",
    trust="set cacert of the cloud in clouds.yaml to a file with the CA that vouches for it, and Keystone's if that is"
    " another one",
    login="check the cloud's login in clouds.yaml",
    setting="its endpoint in Keystone's catalog",
)
#: What the SDK reads beside clouds.yaml: secrets in a file of their own, and what clouds of one vendor have in common.
_BESIDE, _ENDS = ("secure", "clouds-public"), (".yaml", ".yml", ".json")
#: How the names of secrets end in the login of a cloud, by any plugin of keystoneauth.
_SECRETS = ("password", "secret", "token", "passcode")
#: What Keystone takes for a scope. An application credential has one of its own.
_SCOPES = ("project_id", "project_name", "domain_id", "domain_name", "system_scope", "trust_id")


class Leading(BoundedAdapter):  # type: ignore[misc]
    """What the requests of a cloud go through: where one is led elsewhere, its login and a BMC's would go along. Where
    Ironic is Keystone's catalog says, and not always by TLS."""

    def __init__(self, peer_of: Callable[[str], Peer], *, with_login: bool) -> None:
        self._peer_of, self._with_login = peer_of, with_login
        super().__init__()

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self._with_login:
            self._peer_of(str(request.url)).demand_tls(str(request.url))
        answer = super().send(request, *args, **kwargs)
        if not answer.is_redirect:
            return answer
        peer = self._peer_of(str(request.url))
        raise BadAnswer(
            f"{request.method} {urlsplit(request.url).path}: HTTP {answer.status_code}, a redirect, which is not"
            " followed with a login",
            address=str(request.url),
            seen=short(answer.headers.get("Location", "")),
            details=peer.elsewhere(),
            do=f"correct {peer.setting}: scheme, host and port",
        )


def secrets_of(login: Mapping[str, Any]) -> list[str]:
    """Those of ``auth`` of a cloud, whatever kind of login that is."""
    return [str(value) for key, value in login.items() if str(key).endswith(_SECRETS) and value]


def project(session: Any) -> Any:
    """Whose nodes a login sees, as Keystone says it; it is asked where no token lasts. None of its tokens is shown."""
    keep_secret(*(one.split()[-1] for one in (session.get_auth_headers() or {}).values() if one))
    return session.get_project_id()


@lru_cache(maxsize=1)
def load_cloud() -> Callable[[str], Any]:
    """What reads clouds.yaml. Of the five hundred modules that it loads a site without a Keystone needs none, nor does
    a verb that has no provisioner to ask: what asks one calls this before its workers fork (``registry.rehearse``)."""
    try:
        from openstack.config import OpenStackConfig
        from openstack.connection import Connection
    except ImportError as exc:
        raise MissingLibrary("openstacksdk", why="it reads clouds.yaml", cause=traceback.format_exc()) from exc

    def connect(name: str) -> Any:
        # Without the other variables of OpenStack, which would be a cloud that no inventory names.
        config = OpenStackConfig(**(_files_beside(named()) if named() else {}), load_envvars=False)
        return Connection(config=config.get_one(cloud=name))

    return connect


def _files_beside(file: str) -> dict[str, list[str]]:
    """All that is read where a file is named: a cloud of the same name in another one is another cloud, and what lies
    in the working folder would say for this one where its login goes, or whom it trusts."""
    beside = {name: [os.path.join(os.path.dirname(file), f"{name}{end}") for end in _ENDS] for name in _BESIDE}
    return {"config_files": [file], "secure_files": beside["secure"], "vendor_files": beside["clouds-public"]}


def named() -> str:
    """The file that the environment names; empty where clouds.yaml is looked for."""
    return os.environ.get(FILE, "")


def refused_for(kind: str, login: Mapping[str, Any]) -> str:
    """What to do about a login that Keystone refuses, where these words of clouds.yaml say why; else empty.

    :param kind: its ``auth_type``. login: its ``auth``.
    """
    scopes = [one for one in _SCOPES if login.get(one)] if "applicationcredential" in str(kind).lower() else []
    if not scopes:
        return ""
    return (
        f"take {', '.join(scopes)} out of auth of the cloud in clouds.yaml: an application credential has a project of"
        " its own, and Keystone refuses one that comes with any"
    )
