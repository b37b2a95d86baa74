# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Envelopes: only what a known key signed, byte by byte, comes out again."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
STRANGER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
KNOWN = {dsse.keyid(KEY.public_key()): KEY.public_key()}
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
STATEMENTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JSON, max_size=4)


def test_the_specifications_own_example() -> None:
    """https://github.com/secure-systems-lab/dsse/blob/master/protocol.md"""
    encoded = dsse.pae("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(st.text(max_size=20), st.binary(max_size=40), st.text(max_size=20), st.binary(max_size=40))
def test_two_pairs_never_encode_alike(one: str, payload: bytes, other: str, another: bytes) -> None:
    try:
        same = dsse.pae(one, payload) == dsse.pae(other, another)
    except UnicodeEncodeError:
        return  # a lone surrogate is no text
    assert same == ((one, payload) == (other, another))


@given(STATEMENTS)
def test_what_is_signed_comes_out_again(statement: dict[str, Any]) -> None:
    envelope = json.loads(json.dumps(dsse.sign(statement, KEY)))
    assert dsse.verify(envelope, KNOWN) == (statement, next(iter(KNOWN)))


@given(st.data())
def test_no_changed_byte_passes(data: st.DataObject) -> None:
    envelope = dsse.sign({"a": "some text", "b": [1, 2, 3]}, KEY)
    payload = bytearray(base64.b64decode(envelope["payload"]))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    envelope["payload"] = base64.b64encode(bytes(payload)).decode()
    with pytest.raises(TrustError) as caught:
        dsse.verify(envelope, KNOWN)
    assert caught.value.details["finding"] == "bad_signature"


@given(JSON)
def test_noise_is_no_envelope(noise: Any) -> None:
    with pytest.raises(TrustError):
        dsse.verify(noise, KNOWN)


def changed(**parts: Any) -> dict[str, Any]:
    return {**dsse.sign({"a": 1}, KEY), **parts}


@pytest.mark.parametrize(
    "parts,finding",
    [
        ({"signatures": []}, "unknown_key"),
        ({"signatures": None}, "malformed"),
        ({"signatures": ["x"]}, "malformed"),
        ({"payloadType": "text/plain"}, "malformed"),
        ({"payload": "%%%"}, "malformed"),
        ({"payload": 5}, "malformed"),
        ({"signatures": [{"keyid": next(iter(KNOWN)), "sig": "AAAA"}]}, "bad_signature"),
        ({"signatures": [{"keyid": next(iter(KNOWN))}]}, "bad_signature"),
    ],
)
def test_a_broken_envelope(parts: dict[str, Any], finding: str) -> None:
    with pytest.raises(TrustError) as caught:
        dsse.verify(changed(**parts), KNOWN)
    assert caught.value.details["finding"] == finding


def test_an_unknown_key_is_named() -> None:
    envelope = dsse.sign({"a": 1}, STRANGER)
    with pytest.raises(TrustError, match=dsse.keyid(STRANGER.public_key())) as caught:
        dsse.verify(envelope, KNOWN)
    assert caught.value.details["finding"] == "unknown_key"


def test_a_stranger_who_borrows_our_key_id() -> None:
    envelope = dsse.sign({"a": 1}, STRANGER)
    envelope["signatures"][0]["keyid"] = next(iter(KNOWN))
    with pytest.raises(TrustError):
        dsse.verify(envelope, KNOWN)


def test_u7_a_key_id_is_a_hint_and_decides_nothing() -> None:
    envelope = dsse.sign({"a": 1}, KEY)
    envelope["signatures"][0]["keyid"] = dsse.keyid(STRANGER.public_key())
    assert dsse.verify(envelope, KNOWN) == ({"a": 1}, next(iter(KNOWN)))
    assert dsse.verify(envelope, {**KNOWN, envelope["signatures"][0]["keyid"]: STRANGER.public_key()})[0] == {"a": 1}


def test_a_second_signature_and_one_without_a_key_id() -> None:
    envelope = dsse.sign({"a": 1}, KEY)
    both = copy.deepcopy(envelope)
    both["signatures"].insert(0, dsse.sign({"a": 1}, STRANGER)["signatures"][0])
    assert dsse.verify(both, KNOWN)
    del envelope["signatures"][0]["keyid"]
    assert dsse.verify(envelope, KNOWN)


def test_a_statement_with_a_key_twice_is_two_statements() -> None:
    payload = b'{"a": 1, "a": 2}'
    envelope = {
        "payloadType": dsse.PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"sig": base64.b64encode(KEY.sign(dsse.pae(dsse.PAYLOAD_TYPE, payload))).decode()}],
    }
    with pytest.raises(TrustError, match="twice"):
        dsse.verify(envelope, KNOWN)


# -- key files ---------------------------------------------------------------------------------------------------------


def private(path: Path, key: Any, passphrase: str = "", mode: int = 0o600) -> str:
    how = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    path.chmod(mode)
    return str(path)


def public(key: Any) -> str:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def test_private_keys(tmp_path: Path) -> None:
    plain = private(tmp_path / "plain", KEY)
    assert dsse.keyid(dsse.private_key(plain).public_key()) in KNOWN
    locked = private(tmp_path / "locked", KEY, passphrase="hunter2-long")
    assert dsse.private_key(locked, "hunter2-long")
    for wrong in ("", "wrong-passphrase"):
        with pytest.raises(ConfigError, match="cannot be opened") as caught:
            dsse.private_key(locked, wrong)
        assert not wrong or wrong not in str(caught.value)


def test_private_keys_that_are_not_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="read by others"):
        dsse.private_key(private(tmp_path / "open", KEY, mode=0o644))
    with pytest.raises(ConfigError, match="not an Ed25519 key"):
        dsse.private_key(private(tmp_path / "ec", ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(ConfigError, match="cannot be read"):
        dsse.private_key(str(tmp_path / "nowhere"))
    (tmp_path / "noise").write_text("noise")
    (tmp_path / "noise").chmod(0o600)
    with pytest.raises(ConfigError, match="cannot be opened"):
        dsse.private_key(str(tmp_path / "noise"))


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602])
def test_t1_a_private_key_is_its_owners_alone(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="read by others"):
        dsse.private_key(private(tmp_path / "open", KEY, mode=mode))


def test_public_keys(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(public(KEY) + "# and\n" + public(STRANGER))
    assert set(dsse.public_keys([str(both)])) == set(dsse.public_keys([public(KEY), public(STRANGER)]))
    assert len(dsse.public_keys([str(both)])) == 2
    (tmp_path / "empty").write_text("")
    for wrong in (str(tmp_path / "empty"), str(tmp_path / "nowhere"), public(ec.generate_private_key(ec.SECP256R1()))):
        with pytest.raises(ConfigError):
            dsse.public_keys([wrong])
