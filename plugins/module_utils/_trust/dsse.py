# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DSSE envelopes around in-toto statements, signed with Ed25519. PRIVATE to the collection.

DSSE 1.0 (https://github.com/secure-systems-lab/dsse): what is signed is the pre-authentication encoding of type and
payload, so that no payload passes for one of another type. A key is known by the SHA-256 of its public half in DER,
which is what ``openssl pkey -pubin -outform DER | sha256sum`` prints.

Why not securesystemslib: import, one signature and its verification cost 235 ms of CPU with it (1.6.0), and 60 ms here
(Python 3.11, cryptography loaded before in both), and leaves to its caller what most of these lines are: who else may
read the private key, and a statement in which a key of JSON comes twice. The cryptography itself is the same library's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, MissingLibrary, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError:
    HAS_CRYPTOGRAPHY = False
else:
    HAS_CRYPTOGRAPHY = True

PAYLOAD_TYPE = "application/vnd.in-toto+json"
#: The finding where none of the known keys has signed: it is the site that says which are known.
UNKNOWN_KEY = "unknown_key"
_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.S)


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def keyid(key: Any) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def private_key(path: str, passphrase: str = "") -> Any:
    """The signing key out of a PEM file.

    :raises ConfigError: where it is no Ed25519 key, is encrypted otherwise, or may be read by others.
    """
    _need()
    try:
        with open(os.path.expanduser(path), "rb") as source:
            if os.fstat(source.fileno()).st_mode & 0o077:
                raise ConfigError(
                    "the passport key may be read by others", seen=path, do=f"chmod 600 {path}, or make a new key"
                )
            content = source.read()
    except OSError as exc:
        raise ConfigError(
            f"the passport key cannot be read: {exc.strerror}",
            wanted=path,
            do="make one: openssl genpkey -algorithm ed25519 -out FILE",
        ) from exc
    try:
        key = load_pem_private_key(content, password=passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's text is not shown: it may speak of the passphrase.
        raise ConfigError(
            "the passport key cannot be opened",
            wanted="an Ed25519 key in PEM, and its passphrase in key_passphrase where it has one",
            seen=path,
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError("the passport key is not an Ed25519 key", seen=path)
    return key


def public_keys(given: Iterable[str]) -> dict[str, Any]:
    """Known keys by key id, from paths of PEM files or from PEM itself, each with one key or several.

    :raises ConfigError: where one of them holds none.
    """
    _need()
    known: dict[str, Any] = {}
    for item in given:
        text = item if "-----BEGIN" in item else _read(item)
        blocks = _PEM.findall(text)
        if not blocks:
            raise ConfigError(
                "no public key in PEM",
                seen=item if "-----BEGIN" not in item else "the text given",
                do="openssl pkey -in KEY -pubout -out FILE",
            )
        for block in blocks:
            key = _public(block)
            known[keyid(key)] = key
    return known


def check_known(key: Any, given: Iterable[str], path: str) -> None:
    """Before anything is signed: where the public keys are given, the signing key's own must be one of them.

    :raises ConfigError: where no look would let pass what it signs.
    """
    known = public_keys(given)
    if known and keyid(key.public_key()) not in known:
        raise ConfigError(
            "the passport key is not among the public keys, and what it signs would be refused wherever it is shown",
            wanted=f"one of the keys of public_keys (gpufleet_passport_public_keys): {', '.join(sorted(known))}",
            seen=f"{path} (key_path, gpufleet_passport_key_path): {keyid(key.public_key())}",
            do=f"openssl pkey -in {path} -pubout -out FILE, and name FILE among the public keys, everywhere",
        )


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError("a public key cannot be read", seen=f"{path}: {exc}") from exc


def _public(block: str) -> Any:
    try:
        key = load_pem_public_key(block.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError("a public key is not an Ed25519 key in PEM")
    return key


def _need() -> None:
    if not HAS_CRYPTOGRAPHY:
        raise MissingLibrary("cryptography", why="passports are signed and verified with it")


def sign(statement: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """An envelope around a statement."""
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    signature = key.sign(pae(PAYLOAD_TYPE, payload))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": keyid(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }


def payload_of(envelope: Any) -> bytes:
    """The signed bytes.

    :raises TrustError: where this is no envelope of a passport.
    """
    if not isinstance(envelope, Mapping) or not isinstance(envelope.get("payload"), str):
        raise _bad("malformed", "this is no DSSE envelope")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise _bad("malformed", f"the envelope's payload is not {PAYLOAD_TYPE}")
    return _decoded(envelope["payload"])


def verify(envelope: Any, known: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The statement and the id of the known key that signed it.

    :raises TrustError: unknown key, altered payload, or not an envelope; the finding is in its details.
    """
    payload = payload_of(envelope)
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or not all(isinstance(item, Mapping) for item in signatures):
        raise _bad("malformed", "the envelope carries no signatures")
    message = pae(PAYLOAD_TYPE, payload)
    for item in signatures:
        for name in _by_hint(known, item):
            if _holds(known[name], item.get("sig"), message):
                return _statement(payload), name
    told = [str(item.get("keyid") or "") for item in signatures]
    if any(not name or name in known for name in told):
        raise _bad("bad_signature", "the signature does not fit: the passport has been altered")
    raise _bad(UNKNOWN_KEY, f"signed by an unknown key: {', '.join(told) or 'none named'}")


def _by_hint(known: Mapping[str, Any], signature: Mapping[str, Any]) -> list[str]:
    """The ids of all known keys, the one that the signer names first: a hint saves time, and decides nothing."""
    return sorted(known, key=lambda name: name != signature.get("keyid"))


def _holds(key: Any, signature: Any, message: bytes) -> bool:
    try:
        key.verify(_decoded(signature), message)
    except (InvalidSignature, TrustError):
        return False
    return True


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        raise _bad("malformed", "the envelope is not well-formed base64") from None


def _statement(payload: bytes) -> dict[str, Any]:
    """JSON in which no key comes twice: two readers must never see two statements."""
    try:
        statement = json.loads(payload.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as exc:
        raise _bad("malformed", f"the statement cannot be read: {exc}") from None
    if not isinstance(statement, dict):
        raise _bad("malformed", "the statement is no object")
    return statement


def _bad(finding: str, what: str) -> TrustError:
    return TrustError(what, details={"finding": finding})
