# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifies a detached OpenPGP signature with ``gpg``, in a home of its own. PRIVATE to the collection.

``gpgv`` would be smaller, and by its own manual looks at neither expiry nor revocation of a key. Only the status
lines on a pipe of their own are believed, never the exit status or the text for people. A trusted key is one that
lies in the keyring given; a key in the user's own keyring counts for nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, TrustError

_PREFIX = "[GNUPG:] "
_FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
#: OpenPGP numbers of digests that no longer prove anything: MD5, SHA-1, RIPEMD-160 (RFC 9580, section 9.5).
_WEAK_DIGESTS = {"1": "MD5", "2": "SHA-1", "3": "RIPEMD-160"}
#: Signatures over a document: binary and text (RFC 9580, section 5.2.1).
_OVER_DATA = frozenset({"00", "01"})
#: A status that makes a signature worthless: finding and words (GnuPG, doc/DETAILS).
_BAD = {
    "BADSIG": ("bad_signature", "the signature does not fit: what was signed has been changed"),
    "EXPSIG": ("expired_signature", "the signature has expired"),
    "EXPKEYSIG": ("expired_key", "the signer's key has expired"),
    "REVKEYSIG": ("revoked_key", "the signer's key has been revoked"),
}


@dataclass(frozen=True)
class Signature:
    """A signature that holds. ``primary`` is the fingerprint a person knows the key by."""

    fingerprint: str
    primary: str
    user: str
    created: int


@dataclass
class _Record:
    """The status lines of one signature."""

    status: str = ""
    signer: str = ""
    user: str = ""
    valid: list[str] = field(default_factory=list)


def fingerprints(values: Iterable[str]) -> frozenset[str]:
    """Fingerprints in one spelling.

    :raises ConfigError: for a short key id, which anybody can make a key for.
    """
    wanted = set()
    for value in values:
        plain = re.sub(r"[\s:]", "", value).upper().removeprefix("0X")
        if not _FINGERPRINT.fullmatch(plain):
            raise ConfigError(
                "a signer is not given by its full fingerprint",
                wanted="40 or 64 hexadecimal digits",
                seen=value,
                do="take it from: gpg --show-keys --with-fingerprint KEYRING",
            )
        wanted.add(plain)
    return frozenset(wanted)


def verify(
    data: bytes | Callable[[Callable[[bytes], None]], None],
    signature: bytes,
    *,
    keyring: str,
    signers: Sequence[str] = (),
    gpg: str = "gpg",
    timeout: float = 60,
) -> Signature:
    """The signature over the data, if a trusted signer made it.

    :param data: the bytes that are signed, or a function that hands them over piece by piece.
    :raises TrustError: with the finding in its details.
    :raises ConfigError: where gpg or the keyring is not to be had.
    """
    allowed = fingerprints(signers)
    with _home() as home:
        _import(gpg, home, keyring, timeout)
        (home / "signature").write_bytes(signature)
        feed = data if callable(data) else _whole(data)
        lines = _run(gpg, home, ["--verify", str(home / "signature"), "-"], feed, timeout)
    return _judge(_records(lines), allowed, keyring)


@contextmanager
def _home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="gpufleet-gpg-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _import(gpg: str, home: Path, keyring: str, timeout: float) -> None:
    try:
        keys = Path(keyring).expanduser().read_bytes()
    except OSError as exc:
        raise ConfigError(
            f"the keyring of trusted signers cannot be read: {exc.strerror}",
            wanted=keyring,
            do="put the signer's public key there: gpg --export FINGERPRINT > FILE",
        ) from exc
    lines = _run(gpg, home, ["--import"], _whole(keys), timeout)
    if not any(line.startswith("IMPORT_OK ") for line in lines):
        raise ConfigError(
            "the keyring of trusted signers holds no OpenPGP public key",
            seen=keyring,
            do="export it anew: gpg --export FINGERPRINT > FILE",
        )


def _run(
    gpg: str, home: Path, arguments: Sequence[str], feed: Callable[[Callable[[bytes], None]], None], timeout: float
) -> list[str]:
    """The status lines, without their prefix."""
    read_end, write_end = os.pipe()
    argv = [gpg, "--homedir", str(home), "--batch", "--no-tty", "--no-options", "--no-autostart"]
    # One keyring and no other; no key is fetched from anywhere, and each key in the ring is trusted.
    argv += ["--no-default-keyring", "--keyring", str(home / "trusted.gpg"), "--trust-model", "always"]
    argv += ["--no-auto-key-retrieve", "--no-auto-key-locate", "--status-fd", str(write_end), *arguments]
    try:
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function  # both doors of a verb come here
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[write_end],
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LC_ALL": "C"},
        )
    except OSError as exc:
        os.close(read_end)
        raise ConfigError(
            f"{gpg} cannot be run: {exc.strerror}",
            wanted="GnuPG 2.2 or newer on the machine that verifies",
            do="install it (Debian: gnupg), or name it in the option gpg",
        ) from exc
    finally:
        os.close(write_end)
    return _talk(process, read_end, feed, timeout)


def _talk(
    process: subprocess.Popen[bytes], status: int, feed: Callable[[Callable[[bytes], None]], None], timeout: float
) -> list[str]:
    chunks: list[bytes] = []

    def drain() -> None:
        with os.fdopen(status, "rb") as source:
            chunks.append(source.read())

    reader = threading.Thread(target=drain, name="gpufleet-gpg-status", daemon=True)
    reader.start()
    try:
        with suppress(BrokenPipeError):  # gpg has seen enough, and its status lines say what
            _pour(process, feed)
        process.wait(timeout=timeout)
    except subprocess.TimeoutExpired as exc:
        raise BadAnswer(f"gpg did not end within {timeout:g} s") from exc
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    reader.join(timeout=10)
    text = b"".join(chunks).decode("utf-8", "replace")
    return [line[len(_PREFIX) :] for line in text.split("\n") if line.startswith(_PREFIX)]


def _whole(data: bytes) -> Callable[[Callable[[bytes], None]], None]:
    def feed(write: Callable[[bytes], None]) -> None:
        write(data)

    return feed


def _pour(process: subprocess.Popen[bytes], feed: Callable[[Callable[[bytes], None]], None]) -> None:
    pipe = process.stdin
    if pipe is not None:  # it was asked for
        feed(lambda piece: _all(pipe, piece))
        pipe.close()


def _all(pipe: IO[bytes], piece: bytes) -> None:
    pipe.write(piece)


def _records(lines: Iterable[str]) -> list[_Record]:
    records: list[_Record] = []
    for line in lines:
        word, _blank, rest = line.partition(" ")
        fields = rest.split(" ")
        if word == "NEWSIG":
            records.append(_Record())
        elif word in ("GOODSIG", *_BAD):
            record = _current(records, lambda known: not known.status)
            record.status, record.signer, record.user = word, fields[0], " ".join(fields[1:])
        elif word == "ERRSIG":
            record = _current(records, lambda known: not known.status)
            record.status = word
            # keyid pkalgo hashalgo class time rc fingerprint; the last is "-" where the signature does not tell.
            record.signer = fields[6] if len(fields) > 6 and fields[6] != "-" else fields[0]
        elif word == "VALIDSIG":
            _current(records, lambda known: not known.valid).valid = fields
        elif word == "PLAINTEXT":
            raise _distrust("not_detached", "the signature file is no detached signature: it carries a text of its own")
    return records


def _current(records: list[_Record], free: Callable[[_Record], bool]) -> _Record:
    if not records or not free(records[-1]):
        records.append(_Record())
    return records[-1]


def _distrust(finding: str, what: str, *, wanted: str = "", seen: str = "") -> TrustError:
    return TrustError(
        what,
        wanted=wanted,
        seen=seen,
        do="do not deploy this image; get it, its signature and the signer's key from where they are known to be good",
        details={"finding": finding},
    )


def _judge(records: Sequence[_Record], allowed: frozenset[str], keyring: str) -> Signature:
    """The first good signature of an allowed signer, provided that no signature in the file is bad."""
    for record in records:
        if record.status in _BAD:
            finding, what = _BAD[record.status]
            raise _distrust(finding, what, seen=f"signer {_signer(record)} {record.user}".strip())
    good = [found for found in map(_valid, records) if found is not None]
    if not good:
        unknown = [record.signer for record in records if record.status == "ERRSIG"]
        if unknown:
            what = "signed by a key that is not trusted"
            raise _distrust("wrong_signer", what, wanted=f"a key in {keyring}", seen=unknown[0])
        raise _distrust("bad_signature", "there is no OpenPGP signature that could be read")
    trusted = [found for found in good if not allowed or {found.fingerprint, found.primary} & allowed]
    if not trusted:
        raise _distrust(
            "wrong_signer",
            "signed by a key that is not among the signers asked for",
            wanted=", ".join(sorted(allowed)),
            seen=f"{good[0].primary} {good[0].user}",
        )
    return trusted[0]


def _signer(record: _Record) -> str:
    return record.valid[0] if record.valid else record.signer


def _valid(record: _Record) -> Signature | None:
    """GOODSIG and VALIDSIG must both be there, over data, with a digest that still means something."""
    if record.status != "GOODSIG" or len(record.valid) < 9:
        return None
    if record.valid[8] not in _OVER_DATA:
        raise _distrust("bad_signature", "the signature is not one over data", seen=f"class {record.valid[8]}")
    weak = _WEAK_DIGESTS.get(record.valid[7])
    if weak:
        raise _distrust("weak_digest", f"the signature rests on {weak}", wanted="SHA-256 or better", seen=weak)
    primary = record.valid[9] if len(record.valid) > 9 else record.valid[0]
    return Signature(record.valid[0], primary, record.user, int(record.valid[2] or 0))
