# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the API server is, and who we are there: options, a kubeconfig, or the account of the pod that we run in.

Nothing is taken that was not named: not ``~/.kube/config`` and not ``KUBECONFIG``, since whoever types ``kubectl config
use-context`` would send a run to another cluster. Outside of a pod either a file is named or an address. PRIVATE.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    MissingLibrary,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, keep_secret

try:
    import yaml
except ImportError:
    HAS_YAML = False
else:
    HAS_YAML = True

#: Where a pod finds its account.
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_CONF, _URL, _TOKEN, _TOKEN_PATH = "scheduler_conf", "scheduler_url", "scheduler_token", "scheduler_token_path"
_CA, _CONTEXT = "scheduler_ca_path", "scheduler_context"

#: Of a user of a kubeconfig, what runs a program, asks a person or makes us somebody else.
_NOT_TAKEN: Mapping[str, str] = {
    "exec": "a plugin that is to be run for the login",
    "auth-provider": "a login by a plugin of the client",
    "username": "a password, which no API server has taken since 1.19",
    "as": "impersonation",
    "as-uid": "impersonation",
    "as-groups": "impersonation",
}


@dataclass(frozen=True)
class Access:
    """ca: its authorities, as a path, as PEM, or empty for those of the system. cert, key: of a client certificate,
    PEM.

    token: reads it anew each time, since whoever hands it out writes another into its place before it ends; empty where
    there is none. proxy: empty where the environment is to say. name: the TLS name, where it is not that of the
    address.
    """

    address: str
    token: Callable[[], str]
    ca_path: str = ""
    ca_pem: str = ""
    cert: str = ""
    key: str = ""
    proxy: str = ""
    name: str = ""


def of_options(options: Mapping[str, Any]) -> Access:
    """:raises ConfigError: where they name no API server, or more than one."""
    if options[_CONF] and options[_URL]:
        raise ConfigError(
            "both a kubeconfig and an address are given, and they may be two clusters",
            seen="gpufleet_scheduler_conf and gpufleet_scheduler_url",
            do="leave one of them out",
        )
    if options[_CONF]:
        return _of_file(str(options[_CONF]), str(options[_CONTEXT]), options)
    if options[_URL]:
        ca_path = str(options[_CA])
        return Access(str(options[_URL]).rstrip("/"), _given_token(options), ca_path=ca_path)
    if os.environ.get(_HOST):
        return _of_pod(options)
    raise ConfigError(
        "nothing says which API server of Kubernetes to ask",
        wanted="gpufleet_scheduler_conf (a kubeconfig) or gpufleet_scheduler_url",
        do="set one of them; neither KUBECONFIG nor ~/.kube/config is taken, since anybody's kubectl may turn them to"
        " another cluster",
    )


def in_pod(address: str) -> bool:
    """Is it the one that each pod finds in its environment?"""
    return bool(os.environ.get(_HOST)) and address == _own_address()


def _own_address() -> str:
    host = os.environ[_HOST]
    place = f"[{host}]" if ":" in host else host
    return f"https://{place}:{os.environ.get(_PORT) or '443'}"


def _given_token(options: Mapping[str, Any]) -> Callable[[], str]:
    path, text = str(options[_TOKEN_PATH]), str(options[_TOKEN])
    if path:
        return lambda: _secret_of(path)
    keep_secret(text)
    return text.strip


def _of_pod(options: Mapping[str, Any]) -> Access:
    given = options[_TOKEN_PATH] or options[_TOKEN]
    token = _given_token(options) if given else lambda: _secret_of(f"{ACCOUNT}/token")
    ca_path = str(options[_CA]) or f"{ACCOUNT}/ca.crt"
    return Access(_own_address(), token, ca_path=ca_path)


# -- a kubeconfig ----------------------------------------------------------------------------------------------


def _of_file(path: str, context: str, options: Mapping[str, Any]) -> Access:
    content = _read(path)
    name, chosen = _context(content, context, path)
    cluster = _named(content, "clusters", "cluster", chosen.get("cluster"), path)
    user = _named(content, "users", "user", chosen["user"], path) if chosen.get("user") else {}
    _demand_plain(cluster, user, path)
    folder = os.path.dirname(os.path.abspath(path))
    ca_pem = "" if options[_CA] else _data(cluster, "certificate-authority", folder)
    given = options[_TOKEN_PATH] or options[_TOKEN]
    token = _given_token(options) if given else _token_of(path, name, user, folder)
    key = _data(user, "client-key", folder)
    keep_secret(key)
    return Access(
        str(cluster.get("server") or "").rstrip("/"),
        token,
        ca_path=str(options[_CA]),
        ca_pem=ca_pem,
        cert=_data(user, "client-certificate", folder),
        key=key,
        proxy=str(cluster.get("proxy-url") or ""),
        name=str(cluster.get("tls-server-name") or ""),
    )


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise _broken(path, f"it cannot be read: {getattr(exc, 'strerror', '') or exc}") from exc
    try:
        content = json.loads(text)
    except ValueError:
        content = _yaml(text, path)
    if not isinstance(content, dict) or "clusters" not in content:
        raise _broken(path, "it is no kubeconfig: it has no clusters")
    return content


def _yaml(text: str, path: str) -> Any:
    if not HAS_YAML:
        raise MissingLibrary("PyYAML", why="a kubeconfig is YAML, unless it is written as JSON")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        # What stands there is not shown: it holds keys and tokens.
        raise _broken(path, f"it is no YAML{f' (line {mark.line + 1})' if mark else ''}") from None


def _context(content: Mapping[str, Any], wanted: str, path: str) -> tuple[str, Mapping[str, Any]]:
    """The one that was named, or the only one: whoever works with kubectl turns ``current-context`` as he likes."""
    names = [str(one.get("name")) for one in _entries(content, "contexts", path)]
    if not wanted and len(names) != 1:
        raise _broken(
            path,
            f"it has {len(names)} contexts" + (f": {', '.join(names[:10])}" if names else ""),
            do="name one in gpufleet_scheduler_context: current-context is not taken, since any kubectl may turn it",
        )
    name = wanted or names[0]
    return name, _named(content, "contexts", "context", name, path)


def _entries(content: Mapping[str, Any], kind: str, path: str) -> list[Mapping[str, Any]]:
    entries = content.get(kind) or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise _broken(path, f"its {kind} are no list of mappings")
    return entries


def _named(content: Mapping[str, Any], kind: str, what: str, name: Any, path: str) -> Mapping[str, Any]:
    found = [one.get(what) for one in _entries(content, kind, path) if one.get("name") == name]
    if len(found) != 1 or not isinstance(found[0], dict):
        raise _broken(path, f"it has {len(found)} {kind} named {cut(name, 100)}" if len(found) != 1 else f"no {what}")
    return found[0]


def _demand_plain(cluster: Mapping[str, Any], user: Mapping[str, Any], path: str) -> None:
    if cluster.get("insecure-skip-tls-verify"):
        raise _broken(
            path,
            "it says insecure-skip-tls-verify, and a token would go to whoever answers",
            do="name the authority that vouches for the API server in it, or in gpufleet_scheduler_ca_path",
        )
    for key, what in _NOT_TAKEN.items():
        if user.get(key):
            raise Unsupported(
                f"the kubeconfig asks for {what}, which no run does",
                address=path,
                seen=key,
                do="make a service account for the collection (extensions/kubernetes/rbac.yaml), and name a file with"
                " its token in gpufleet_scheduler_token_path, which may be written anew at any time",
            )


def _token_of(path: str, context: str, user: Mapping[str, Any], folder: str) -> Callable[[], str]:
    file = str(user.get("tokenFile") or "")
    if file:
        return lambda: _secret_of(os.path.join(folder, file))
    if not user.get("token"):
        return str

    def again() -> str:
        content = _read(path)
        chosen = _named(content, "contexts", "context", context, path)
        token = str(_named(content, "users", "user", chosen.get("user"), path).get("token") or "").strip()
        keep_secret(token)
        return token

    return again


def _data(section: Mapping[str, Any], key: str, folder: str) -> str:
    """PEM: out of the file itself, or of another one beside it."""
    inline, path = section.get(f"{key}-data"), section.get(key)
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            raise ConfigError(f"{key}-data of the kubeconfig is not PEM in base64", do="write the file anew") from None
    return _text_of(os.path.join(folder, str(path)), key) if path else ""


def _secret_of(path: str) -> str:
    """:raises ConfigError: where it is not there, or empty."""
    text = _text_of(path, "the token").strip()
    if not text or any(ord(char) <= 32 or ord(char) > 126 for char in text):
        raise ConfigError(
            "the file with the token has no token in it", seen=path, do="correct gpufleet_scheduler_token_path"
        )
    keep_secret(text)
    return text


def _text_of(path: str, what: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"the file with {what} cannot be read: {getattr(exc, 'strerror', '') or 'it is no plain text'}",
            seen=path,
            do="correct its path, or its rights",
        ) from exc


def _broken(path: str, what: str, *, do: str = "") -> FleetError:
    return ConfigError(
        f"the kubeconfig cannot be used: {what}", address=path, do=do or "correct gpufleet_scheduler_conf"
    )
