# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures by real keys of every kind, judged by the real gpg."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import openpgp

DATA = b"what is signed\n" * 100


@pytest.fixture
def ring(tmp_path: Path, keys: Any) -> Any:
    def write(*names: str, armor: bool = False) -> str:
        path = tmp_path / "ring"
        path.write_bytes(keys.ring(*names, armor=armor))
        return str(path)

    return write


def finding(*args: Any, **more: Any) -> str:
    with pytest.raises(TrustError) as caught:
        openpgp.verify(*args, **more)
    return f"{caught.value.details['finding']}: {caught.value}"


@pytest.mark.parametrize("armor", [False, True])
def test_a_good_signature(keys: Any, ring: Any, armor: bool) -> None:
    found = openpgp.verify(DATA, keys.sign("images", DATA), keyring=ring("images", armor=armor))
    assert found.primary == found.fingerprint == keys.fingerprints["images"]
    assert "images@example.com" in found.user


def test_several_armoured_keys_in_one_file(keys: Any, tmp_path: Path) -> None:
    path = tmp_path / "ring"
    path.write_bytes(keys.ring("stranger", armor=True) + b"\nsome words\n" + keys.ring("images", armor=True))
    assert openpgp.verify(DATA, keys.sign("images", DATA), keyring=str(path)).primary == keys.fingerprints["images"]


def test_the_data_may_come_in_pieces(keys: Any, ring: Any) -> None:
    def feed(write: Any) -> None:
        for start in range(0, len(DATA), 7):
            write(DATA[start : start + 7])

    assert openpgp.verify(feed, keys.sign("images", DATA), keyring=ring("images"))


def test_changed_data(keys: Any, ring: Any) -> None:
    assert "bad_signature" in finding(DATA + b"x", keys.sign("images", DATA), keyring=ring("images"))


def test_another_signer_is_named_by_fingerprint(keys: Any, ring: Any) -> None:
    told = finding(DATA, keys.sign("stranger", DATA), keyring=ring("images"))
    assert told.startswith("wrong_signer") and keys.fingerprints["stranger"] in told


def test_a_key_of_the_users_own_keyring_counts_for_nothing(
    keys: Any, ring: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNUPGHOME", str(keys.home))
    assert "wrong_signer" in finding(DATA, keys.sign("stranger", DATA), keyring=ring("images"))


def test_signers_are_asked_for_by_fingerprint(keys: Any, ring: Any) -> None:
    both, signature = ring("images", "stranger"), keys.sign("stranger", DATA)
    spelled = " ".join(keys.fingerprints["stranger"][at : at + 4] for at in range(0, 40, 4)).lower()
    assert openpgp.verify(DATA, signature, keyring=both, signers=[spelled])
    told = finding(DATA, signature, keyring=both, signers=[keys.fingerprints["images"]])
    assert told.startswith("wrong_signer") and keys.fingerprints["stranger"] in told
    with pytest.raises(ConfigError, match="full fingerprint"):
        openpgp.verify(DATA, signature, keyring=both, signers=[keys.fingerprints["stranger"][-16:]])


def test_a_subkey_is_known_by_its_primary_key(keys: Any, ring: Any) -> None:
    found = openpgp.verify(DATA, keys.sign("split", DATA), keyring=ring("split"), signers=[keys.fingerprints["split"]])
    assert found.primary == keys.fingerprints["split"] != found.fingerprint


def test_an_expired_key(keys: Any, ring: Any) -> None:
    """Also where it signed while it was good: nobody vouches for it any more."""
    signature = keys.sign("expired", DATA, at="20200102T000000")
    assert finding(DATA, signature, keyring=ring("expired")).startswith("expired_key")


def test_a_revoked_key(keys: Any, ring: Any) -> None:
    signature = keys.sign("revoked", DATA)
    assert openpgp.verify(DATA, signature, keyring=ring("revoked"))
    keys.revoke("revoked")
    assert finding(DATA, signature, keyring=ring("revoked")).startswith("revoked_key")


def test_an_expired_signature(keys: Any, ring: Any) -> None:
    keys.make("old", at="20200101T000000")
    signature = keys.sign("old", DATA, "--default-sig-expire", "1d", at="20200102T000000")
    assert finding(DATA, signature, keyring=ring("old")).startswith("expired_signature")


def test_a_weak_digest(keys: Any, ring: Any) -> None:
    keys.gpg("--quick-gen-key", "rsa <rsa@example.com>", "rsa2048", "sign", "never")
    listing = keys.gpg("--list-keys", "--with-colons", "rsa@example.com").decode()
    keys.fingerprints["rsa"] = next(row.split(":")[9] for row in listing.splitlines() if row.startswith("fpr"))
    signature = keys.sign("rsa", DATA, "--digest-algo", "SHA1")
    assert finding(DATA, signature, keyring=ring("rsa")).startswith("weak_digest")


def test_a_bad_signature_beside_a_good_one(keys: Any, ring: Any) -> None:
    import re

    def binary(signature: bytes) -> bytes:
        return keys.gpg("--dearmor", data=signature)

    two = binary(keys.sign("images", DATA)) + binary(keys.sign("stranger", b"something else"))
    told = finding(DATA, two, keyring=ring("images", "stranger"))
    assert re.match("bad_signature", told)


def test_a_signed_message_is_no_detached_signature(keys: Any, ring: Any) -> None:
    message = keys.gpg("--local-user", keys.fingerprints["images"], "--sign", data=b"another text")
    with pytest.raises(TrustError):
        openpgp.verify(DATA, message, keyring=ring("images"))


@pytest.mark.parametrize("signature", [b"", b"garbage", b"-----BEGIN PGP SIGNATURE-----\n\nxx\n"])
def test_no_signature_at_all(keys: Any, ring: Any, signature: bytes) -> None:
    assert finding(DATA, signature, keyring=ring("images")).startswith("bad_signature")


def test_no_keyring_and_no_gpg(keys: Any, ring: Any, tmp_path: Path) -> None:
    signature = keys.sign("images", DATA)
    with pytest.raises(ConfigError, match="keyring"):
        openpgp.verify(DATA, signature, keyring=str(tmp_path / "nowhere"))
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ConfigError, match="holds no OpenPGP public key"):
        openpgp.verify(DATA, signature, keyring=str(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="cannot be run"):
        openpgp.verify(DATA, signature, keyring=ring("images"), gpg="/nonexistent/gpg")


def test_a_gpg_that_hangs_is_killed(keys: Any, ring: Any, tmp_path: Path) -> None:
    hangs = tmp_path / "gpg"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    begun = time.monotonic()
    with pytest.raises(BadAnswer, match="did not end"):
        openpgp.verify(DATA, b"x", keyring=ring("images"), gpg=str(hangs), timeout=0.3)
    assert time.monotonic() - begun < 20


def test_only_the_status_lines_are_believed(keys: Any, ring: Any, tmp_path: Path) -> None:
    """A gpg that ends well and says fine words on stdout and stderr has verified nothing."""
    liar = tmp_path / "gpg"
    good = "[GNUPG:] GOODSIG 0 x\\n[GNUPG:] VALIDSIG 0 0 0 0 0 0 0 8 00"
    liar.write_text(
        f'#!/bin/sh\ncat > /dev/null\nprintf "{good}\\n"; printf "{good}\\n" >&2\n'
        'case "$*" in *--import*) exec gpg "$@";; esac\n'
    )
    liar.chmod(0o755)
    with pytest.raises((TrustError, ConfigError)):
        openpgp.verify(DATA, b"x", keyring=ring("images"), gpg=str(liar))


FINGERPRINT = "A" * 40
SAID = {
    "GOODSIG": f"GOODSIG {FINGERPRINT} somebody",
    "VALIDSIG": f"VALIDSIG {FINGERPRINT} 2026-01-01 1 0 4 0 22 8 00 {FINGERPRINT}",
    "over a key": f"VALIDSIG {FINGERPRINT} 2026-01-01 1 0 4 0 22 8 10 {FINGERPRINT}",
    "half": f"VALIDSIG {FINGERPRINT} 2026-01-01 1",
    "PLAINTEXT": "PLAINTEXT 62 1767225600 other.txt",
    "EXPSIG": f"EXPSIG {FINGERPRINT} somebody",
}


@pytest.mark.parametrize(
    ("said", "trusted"),
    [
        (("GOODSIG", "VALIDSIG"), True),
        (("VALIDSIG",), False),
        (("GOODSIG",), False),
        (("GOODSIG", "half"), False),
        (("GOODSIG", "over a key"), False),
        (("PLAINTEXT", "GOODSIG", "VALIDSIG"), False),
        (("EXPSIG", "VALIDSIG"), False),
    ],
)
def test_t1_both_status_lines_make_a_signature(
    keys: Any, ring: Any, tmp_path: Path, said: tuple[str, ...], trusted: bool
) -> None:
    """A gpg that says this and no more, on the pipe that is read."""
    lines = "\\n".join(f"[GNUPG:] {line}" for line in ["NEWSIG", *(SAID[word] for word in said)])
    program = tmp_path / "gpg"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *--import*) exec gpg "$@";; esac\ncat > /dev/null\n'
        'while [ $# -gt 0 ]; do [ "$1" = --status-fd ] && to=$2; shift; done\n'
        f"printf '{lines}\\n' > /proc/self/fd/$to\n"
    )
    program.chmod(0o755)
    if trusted:
        assert openpgp.verify(DATA, b"x", keyring=ring("images"), gpg=str(program)).primary == FINGERPRINT
    else:
        with pytest.raises(TrustError):
            openpgp.verify(DATA, b"x", keyring=ring("images"), gpg=str(program))


def test_nothing_is_left_behind(keys: Any, ring: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    openpgp.verify(DATA, keys.sign("images", DATA), keyring=ring("images"))
    assert [name for name in os.listdir(tmp_path) if name.startswith("gpufleet-gpg")] == []
