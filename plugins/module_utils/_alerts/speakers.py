# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what a monitor shows that it may speak, from the options of a listener. PRIVATE to the collection.

A token says whose word it is. A certificate says that a machine is the site's, and a GPU node's says no less. So
without a token one kind of monitor is heard, and that is DCGM where its senders, which are on the nodes, have a token.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.dcgm import NAME as DCGM
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError


def general_token(args: Mapping[str, Any], kinds: Sequence[str]) -> str:
    """Of all kinds that have none of their own; empty where a certificate does, or where there are no such kinds.

    :raises ConfigError: Whoever may speak here has jobs launched: an open door is none.
    """
    if args.get("token_path"):
        return _read("token_path", args["token_path"])
    of_nodes = bool(args.get("dcgm_token_path"))
    if of_nodes and set(kinds) == {DCGM}:
        return ""
    if not args.get("client_ca_path"):
        raise ConfigError("neither token_path nor client_ca_path says who may send alerts", do="set one of them")
    if of_nodes:
        raise ConfigError(
            "with dcgm_token_path and without token_path a node's certificate would speak for all other monitors",
            do="set token_path, or kinds to [dcgm]",
        )
    if len(set(kinds)) != 1:
        raise ConfigError(
            "without token_path whoever has a certificate would speak for each of several kinds of monitors",
            seen=", ".join(kinds),
            do="set token_path, or kinds to the one for whose monitor alone client_ca_path signs",
        )
    return ""


def own_tokens(args: Mapping[str, Any], general: str) -> dict[str, str]:
    """Of the kinds that have one of their own, which is none where all others have it as well."""
    if not args.get("dcgm_token_path"):
        return {}
    own = _read("dcgm_token_path", args["dcgm_token_path"])
    if own == general:
        raise ConfigError(
            "token_path and dcgm_token_path have one token, by which root of a GPU node would speak for all monitors",
            address=str(args["dcgm_token_path"]),
            do="write another token into the file of dcgm_token_path",
        )
    return {DCGM: own}


def _read(option: str, path: Any) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").partition("\n")[0].strip()
    except UnicodeDecodeError:
        raise _unfit(option, path, "a token", "what is no text") from None
    except (OSError, TypeError, ValueError) as exc:
        raise _unfit(option, path, "a token", str(exc)) from exc
    if len(token) < 16:
        what = f"the token of {option} is too short to be one"
        raise ConfigError(
            what, address=str(path), wanted="16 characters or more", do="write a longer one into the file"
        )
    return token


def _unfit(option: str, path: Any, wanted: str, seen: str) -> ConfigError:
    return ConfigError(
        f"{option} names no file that can be used",
        address=str(path),
        wanted=wanted,
        seen=seen,
        do=f"correct {option}, or the file, and let the user of ansible-rulebook read it",
    )


def tls(args: Mapping[str, Any]) -> Optional[ssl.SSLContext]:
    """None where nothing is encrypted."""
    if not args.get("certificate_path"):
        if args.get("client_ca_path"):
            raise ConfigError("client_ca_path needs a certificate_path", do="set it")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # What is asked for both files at once does not say which one it could not use.
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "certificate_path", args["certificate_path"])
    key = "key_path" if args.get("key_path") else "certificate_path"
    try:
        context.load_cert_chain(args["certificate_path"], args[key])
    except (OSError, TypeError, ValueError) as exc:
        raise _unfit(key, args[key], f"the key of {args['certificate_path']}, PEM", str(exc)) from exc
    if args.get("client_ca_path"):
        _trust(context, "client_ca_path", args["client_ca_path"])
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _trust(context: ssl.SSLContext, option: str, path: Any) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, TypeError, ValueError) as exc:
        raise _unfit(option, path, "a certificate, PEM", str(exc)) from exc


def place(args: Mapping[str, Any]) -> tuple[str, int]:
    """Where it listens; a port that was a template may be a text."""
    told = args.get("port")
    try:
        port = int(str(told))
    except ValueError:
        port = 0
    if not 0 < port < 2**16:
        do = "correct port, which a rulebook has from gpufleet_port"
        raise ConfigError("port is no number of one", wanted="1 to 65535", seen=repr(told), do=do)
    return str(args.get("host") or "127.0.0.1"), port
