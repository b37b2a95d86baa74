# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a file to MAAS as a custom image, in pieces, and goes on where an earlier run has left off. PRIVATE.

What is known of it, and why the code is as it is:

* A file is announced with its size and SHA-256, and gets an address that takes its bytes in order. How many came, MAAS
  tells as a percentage over all region controllers; of all that came it compares the digest once the last is there.
* To announce a file under a name takes away what lay there under it, also where a machine is about to be deployed with
  it. So nothing is announced over another file, and a file that is announced already is gone on with.
* Pieces that reach several region controllers, as behind a balancer that does not stick, make no file on any of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    ConfigError,
    Refused,
    TrustError,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._fetch import Source
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import images, record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import (
    ABSENT,
    PARTIAL,
    PRESENT,
    Opened,
    Stored,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: As large as those of MAAS's own client, so that whatever stands before it takes them.
PIECE = 4 * 1024 * 1024
_UPLOAD = re.compile(r"(?:\A|/)(boot-resources/\d+/upload/\d+/)\Z")

#: MAAS's words for a file that is whole and another one.
_MISMATCH = "does not match given SHA256"

#: How MAAS calls a file by the end of its name, of an image that is a root file system and of one that is a whole disk.
_ROOTS: Mapping[str, str] = {
    ".tar.gz": "tgz",
    ".tgz": "tgz",
    ".tar.xz": "txz",
    ".txz": "txz",
    ".tar.bz2": "tbz",
    ".tbz": "tbz",
}
_DISKS: Mapping[str, str] = {
    ".tar.gz": "ddtgz",
    ".tgz": "ddtgz",
    ".tar.xz": "ddtxz",
    ".tar.bz2": "ddtbz",
    ".tar": "ddtar",
    ".gz": "ddgz",
    ".xz": "ddxz",
    ".bz2": "ddbz2",
    ".raw": "ddraw",
    ".img": "ddraw",
    ".dd": "ddraw",
}
#: Of a file, since 3.5.
_ON_DISK = "filename_on_disk"
_KINDS: Mapping[str, Mapping[str, str]] = {"ramdisk": _ROOTS, "whole-disk": _DISKS}


def stored(api: MaasApi, wanted: Wanted, image: Image) -> Stored:
    """What lies there under the image's name, for the architecture of the machine."""
    kind = images.kind_of(record.architecture(wanted))
    mine = images.named(images.listed(api), image, kind)
    if not mine:
        return Stored(image.label)
    held = api.get(f"boot-resources/{mine[0]['id']}/") or {}
    sets = held.get("sets") or {}
    file = _file(images.newest({version: one for version, one in sets.items() if one.get("complete", True)}))
    if file.get("sha256") != image.sha256:
        file = _file(images.newest(sets))
    if not file:
        return Stored(image.label)
    size, digest = int(file.get("size") or 0), str(file.get("sha256") or "")
    if file.get("complete", True):
        return Stored(image.label, PRESENT, digest, size, size)
    sent = _sent(api, file)
    return Stored(image.label, PARTIAL, digest, sent, size, lacks=f"{sent} of {size} bytes have come")


def _file(of: Mapping[str, Any]) -> Mapping[str, Any]:
    files = [one for one in (of.get("files") or {}).values() if isinstance(one, dict)]
    return files[0] if files else {}


def _sent(api: MaasApi, file: Mapping[str, Any]) -> int:
    """A percentage of the bytes of all region controllers, of which those that come reach one. Until 3.4, which keeps
    no file on a disk, the whole size by what has come (progress in ``maasserver/models/largefile.py`` of 3.4.10)."""
    regions = api.get("regioncontrollers/") if _ON_DISK in file else ()
    count = len(regions) if isinstance(regions, list) and regions else 1
    try:
        progress, size = float(file.get("progress") or 0.0), int(file.get("size") or 0)
        if _ON_DISK in file:
            sent = round(progress / 100.0 * size * count)
        else:
            sent = round(size / progress) if progress else 0
    except (TypeError, ValueError, OverflowError) as exc:
        raise BadAnswer("MAAS does not say how much of the image has come", address=api.address) from exc
    if not 0 <= sent <= size * count:
        raise BadAnswer(
            "MAAS does not say how much of the image has come",
            address=api.address,
            wanted=f"between none and all of {size} bytes",
            seen=f"progress: {progress:g}",
        )
    return sent


def bring(api: MaasApi, ctx: Context, wanted: Wanted, image: Image, there: Stored, opened: Opened) -> None:
    """What an earlier run has sent may be of another file, which MAAS tells at the end: then it is begun anew."""
    try:
        _brought(api, ctx, wanted, image, there, opened)
    except Refused as exc:
        if not there.sent or _MISMATCH not in exc.seen:
            raise
        _brought(api, ctx, wanted, image, Stored(there.name), opened)


def _brought(api: MaasApi, ctx: Context, wanted: Wanted, image: Image, there: Stored, opened: Opened) -> None:
    filetype = _filetype(wanted, image)
    with opened() as source:
        if source.size is None:
            raise BadAnswer("the image's server does not say how large it is", address=api.address)
        if there.state == ABSENT:
            there = _announced(api, wanted, image, filetype, source.size)
            if ctx.check_mode:
                return
        if there.size != source.size:
            raise ConfigError(
                "what was begun to be uploaded has another size than the image",
                node=wanted.host,
                wanted=f"{source.size} bytes",
                seen=f"{there.size} bytes",
                do=f"remove the unfinished image {image.label} at MAAS, then run again",
            )
        _send(api, ctx, wanted, image, there, source)


def _announced(api: MaasApi, wanted: Wanted, image: Image, filetype: str, size: int) -> Stored:
    fields = [
        ("name", f"custom/{image.label}"),
        ("architecture", record.architecture(wanted)),
        ("filetype", filetype),
        ("sha256", image.sha256),
        ("size", str(size)),
        ("title", image.label),
    ]
    if wanted.extras.get("base_image"):
        fields.append(("base_image", str(wanted.extras["base_image"])))
    saying = " ".join(f"{key}={value}" for key, value in fields)
    api.write("POST", "boot-resources/", fields, saying=saying, host=wanted.host)
    return Stored(image.label, PARTIAL, image.sha256, 0, size)


def _send(api: MaasApi, ctx: Context, wanted: Wanted, image: Image, there: Stored, source: Source) -> None:
    """All of it is read, and what has come already is not sent again. The last piece goes once the digest is right."""
    what = f"PUT {api.address}/api/2.0/boot-resources/ {image.label}, {there.size - there.sent} bytes in pieces"
    if not ctx.may_write(what, nodes=(wanted.host,)):
        return
    target, total, at = _target(api, wanted, image, there.sent), hashlib.sha256(), 0
    for piece in _pieces(source):
        total.update(piece)
        end = at + len(piece)
        if end >= there.size and total.hexdigest() != image.sha256:
            raise TrustError(
                "the image's address leads to another file than the one that was verified",
                node=wanted.host,
                wanted=image.sha256,
                seen=total.hexdigest(),
                do="run again from image_verify on; MAAS has not got all of it, and deploys nothing with it",
            )
        if end > there.sent:
            ctx.lifeline.beat()
            api.send_piece(target, piece[max(0, there.sent - at) :])
            if end < there.size:
                _target(api, wanted, image, end)
        at = end


def _target(api: MaasApi, wanted: Wanted, image: Image, sent: int) -> str:
    """Where the next piece goes.

    :raises Changed: where not all that was sent and nothing else has come: somebody uploads the same image.
    """
    kind = images.kind_of(record.architecture(wanted))
    mine = images.named(images.listed(api), image, kind)
    held = (api.get(f"boot-resources/{mine[0]['id']}/") or {}) if mine else {}
    file = _file(images.newest(held.get("sets") or {}))
    seen = _sent(api, file)
    found: Optional[re.Match[str]] = _UPLOAD.search(urlsplit(str(file.get("upload_uri") or "")).path)
    if str(file.get("sha256")) != image.sha256 or seen != sent or found is None:
        raise Changed(
            "the upload at MAAS is not where it was left",
            node=wanted.host,
            address=api.address,
            wanted=f"{sent} bytes of {image.sha256}",
            seen=f"{seen} bytes of {short(file.get('sha256'))}",
            do="let nobody else upload this image meanwhile, and let all requests reach one region controller;"
            " run again",
        )
    return found[1]


def _pieces(source: Source) -> Iterator[bytes]:
    """The file in pieces of one size but the last, which is never empty."""
    held = bytearray()
    for piece in source.pieces:
        held += piece
        while len(held) > PIECE:
            yield bytes(held[:PIECE])
            del held[:PIECE]
    if held:
        yield bytes(held)


def _filetype(wanted: Wanted, image: Image) -> str:
    """As the option ``driver`` says it, else by the end of the file's name."""
    own = str(wanted.extras.get("filetype") or "")
    name = urlsplit(image.url).path.lower()
    ends = sorted(_KINDS.get(image.format, {}), key=len, reverse=True)
    found = own or next((_KINDS[image.format][end] for end in ends if name.endswith(end)), "")
    if not found:
        raise ConfigError(
            f"MAAS takes no image of such a name as a {image.format}",
            node=wanted.host,
            wanted=f"a file that ends with one of {', '.join(ends)}",
            seen=name.rpartition("/")[2],
            do="say filetype in the option driver, by MAAS's own word (tgz, ddgz, ...), or publish it by such a name",
        )
    return found
