# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads SHA256SUMS as ``sha256sum`` writes it. PRIVATE to the collection.

What is signed must be understood wholly: a line of another form, a path instead of a name, or one name with two
digests makes the file unusable, since each of them could be what an attacker wants to be overlooked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

# "<hex>  name", "<hex> *name" (binary) and the BSD form of "sha256sum --tag".
_GNU = re.compile(r"(?P<digest>[0-9a-fA-F]{64}) [ *](?P<name>[^/\\\x00-\x1f\x7f]+)")
_BSD = re.compile(r"SHA256 \((?P<name>[^/\\\x00-\x1f\x7f]+)\) = (?P<digest>[0-9a-fA-F]{64})")
_NO_NAMES = frozenset({".", ".."})


def parse(content: bytes) -> dict[str, str]:
    """Digest in lower case by file name.

    :raises BadAnswer: where the file is no SHA256SUMS.
    :raises TrustError: where it contradicts itself.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise BadAnswer("the file of checksums is not text", wanted="lines as sha256sum writes them") from None
    found: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:-1] if raw.endswith("\r") else raw
        if not line.strip() or line.startswith("#"):
            continue
        name, digest = _entry(line, number)
        if found.setdefault(name, digest) != digest:
            raise TrustError(
                f"the file of checksums gives two digests for {name}",
                seen=f"{found[name]} and {digest}",
                do="have the image built and signed again; a file that contradicts itself proves nothing",
                details={"finding": "conflicting_checksums"},
            )
    if not found:
        raise BadAnswer("the file of checksums is empty", wanted="lines as sha256sum writes them")
    return found


def _entry(line: str, number: int) -> tuple[str, str]:
    match = _GNU.fullmatch(line) or _BSD.fullmatch(line)
    name = match.group("name") if match else ""
    if match is None or name in _NO_NAMES:
        raise BadAnswer(
            f"line {number} of the file of checksums cannot be read",
            wanted="64 hexadecimal digits, two blanks and a file name without a path",
            seen=cut(line, 120),
        )
    return name, match.group("digest").lower()


def listed(sums: Mapping[str, str], name: str, what: str) -> str:
    """The signed digest of a file.

    :raises TrustError: where the signed file does not name it.
    """
    if name not in sums:
        raise TrustError(
            f"the signed file of checksums does not list {what}",
            wanted=name,
            seen=", ".join(sorted(sums)[:10]),
            do="correct the URL in gpufleet_image, or have the file listed and signed again",
            details={"finding": "not_listed"},
        )
    return sums[name]
