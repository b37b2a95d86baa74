# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifies a golden image at its source, on the controller. PRIVATE to the collection.

The chain: a key in the site's keyring signs SHA256SUMS (or the artifact itself); SHA256SUMS names the artifact and the
manifest; the artifact's own bytes have that digest. Whatever is not declared is inconclusive, and never skipped.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _fetch as fetch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    Fenced,
    FleetError,
    TrustError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import bare_sha256
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import checksums, manifest, openpgp
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.runcache import RunCache
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

Cell = tuple[str, str]


def image_of(params: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The declared image without what was not declared.

    :raises ConfigError: where there is none.
    """
    require(params, "image", node=node)
    image = {key: value for key, value in params["image"].items() if value not in (None, "")}
    require(image, "name", "version", "url", node=node)
    image.setdefault("keyring", params.get("keyring"))
    if params.get("keyring"):
        image["keyring"] = params["keyring"]
    return image


def verify_artifact(params: Mapping[str, Any], ctx: Context) -> tuple[Judgement, dict[str, Any]]:
    """Judge the artifact. Returns the verdict so far, and what is known of the image for the record."""
    judgement = Judgement("image_artifact")
    image = image_of(params, ctx.node)
    cache = RunCache(str(params.get("run_cache") or ""), ctx.node)
    params = {**params, "away": cache.away, "ca_path": params.get("ca_path") or image.get("ca_path")}
    known = {"name": image["name"], "version": image["version"]}
    entity = fetch.basename(image["url"])
    whose = _signed_as(image)
    judgement.require(("signature", whose), *_of_the_artifact(params, image), *_of_the_kernel(image))
    judgement.require(*manifest.cells(image))
    signed = _guarded(judgement, "signature", whose, lambda: _signed_digests(params, image, cache, judgement, ctx))
    if signed is not None:
        known["signer"] = signed["signer"]
        judgement.evidence["signed"] = signed
        _guarded(judgement, "digest", entity, lambda: _artifact(params, image, signed, cache, judgement, ctx, known))
        if image.get("manifest_url") and signed["digests"]:
            _guarded(
                judgement, "manifest", entity, lambda: manifest.judge(params, image, signed, cache, judgement, known)
            )
        if image.get("kernel_url"):
            _guarded(judgement, "kernel", entity, lambda: _kernel(params, image, signed, cache, judgement, ctx))
    return judgement, known


def expectations(params: Mapping[str, Any], ctx: Context) -> tuple[Judgement, dict[str, Any]]:
    """What a node must run, from the signature downwards, without reading the artifact itself.

    Returns a verdict (of which only ``pass`` allows to go on) and the expectations.
    """
    judgement = Judgement("image_verify")
    image = image_of(params, ctx.node)
    cache = RunCache(str(params.get("run_cache") or ""), ctx.node)
    params = {**params, "away": cache.away, "ca_path": params.get("ca_path") or image.get("ca_path")}
    expect: dict[str, Any] = {"name": image["name"], "version": image["version"]}
    whose = _signed_as(image)
    judgement.require(("signature", whose), *manifest.cells(image))
    signed = _guarded(judgement, "signature", whose, lambda: _signed_digests(params, image, cache, judgement, ctx))
    if signed is None:
        return judgement, expect
    expect["signer"] = signed["signer"]
    judgement.evidence["signed"] = signed
    if not (signed["digests"] and image.get("manifest_url")):
        _undeclared(judgement, "manifest", image["name"], "manifest_url and a signed SHA256SUMS that lists it")
        return judgement, expect
    _guarded(judgement, "digest", image["name"], lambda: _declared(image, signed, judgement, expect))
    name = image["name"]
    _guarded(judgement, "manifest", name, lambda: manifest.judge(params, image, signed, cache, judgement, expect))
    return judgement, expect


def _signed_as(image: Mapping[str, Any]) -> str:
    """What the signature is over: the list of digests, or the artifact itself."""
    return fetch.basename(image.get("checksums_url") or image["url"])


def _of_the_artifact(params: Mapping[str, Any], image: Mapping[str, Any]) -> Iterator[Cell]:
    if image.get("checksums_url"):
        yield "digest" if params["deep"] else "declared_digest", fetch.basename(image["url"])


def _of_the_kernel(image: Mapping[str, Any]) -> Iterator[Cell]:
    if image.get("kernel_url"):
        yield "kernel", fetch.basename(image["kernel_url"])


def _guarded(judgement: Judgement, step: str, entity: str, work: Callable[[], Any]) -> Any:
    """Do one step; what goes wrong is a check that does not pass, so that its verdict is recorded."""
    try:
        return work()
    except Fenced:
        raise
    except FleetError as exc:
        distrust = isinstance(exc, TrustError)
        judgement.check(
            step,
            entity=entity,
            measured=exc.seen or exc.what,
            wanted=exc.wanted or "verified",
            source=exc.address or "gpufleet_image",
            verdict=FAIL if distrust else INCONCLUSIVE,
            finding=str(exc.details.get("finding") or exc.kind),
            text=str(exc),
            remedy="retest" if isinstance(exc, Unreachable) else "remediate_config",
        )
    return None


def _undeclared(judgement: Judgement, step: str, entity: str, wanted: str) -> None:
    judgement.check(
        step,
        entity=entity,
        measured="not declared",
        wanted=wanted,
        source="gpufleet_image",
        verdict=INCONCLUSIVE,
        finding=f"{step}_not_declared",
        text=f"{step}: nothing to verify it by; gpufleet_image must declare {wanted}",
    )


def _signed_digests(
    params: Mapping[str, Any], image: Mapping[str, Any], cache: RunCache, judgement: Judgement, ctx: Context
) -> dict[str, Any] | None:
    """Signer and the digests that he signed; an artifact signed by itself has none to give yet."""
    if not image.get("signature_url") or not image.get("keyring"):
        _undeclared(judgement, "signature", image["name"], "signature_url and keyring")
        return None
    judgement.argv = [params["gpg"], "--verify", fetch.shown(image["signature_url"])]
    if not image.get("checksums_url"):
        return {"signer": "", "digests": {}, "user": ""}
    key = ["sums", image["checksums_url"], image["signature_url"], *_keyring_key(params, image)]
    signed: dict[str, Any] = cache.get(key, lambda: _verified_sums(params, image))
    judgement.check(
        "signature",
        entity=fetch.basename(image["checksums_url"]),
        measured=signed["signer"],
        wanted=", ".join(params.get("signers") or []) or "a key of the keyring",
        source=image["keyring"],
        verdict=PASS,
    )
    return signed


def _keyring_key(params: Mapping[str, Any], image: Mapping[str, Any]) -> list[Any]:
    """What, besides the files, decides whether a signature is trusted."""
    try:
        content = Path(image["keyring"]).expanduser().read_bytes()
    except OSError as exc:
        raise ConfigError(
            f"the keyring of trusted signers cannot be read: {exc.strerror}",
            wanted=image["keyring"],
            do="put the signer's public key there: gpg --export FINGERPRINT > FILE",
        ) from exc
    return [hashlib.sha256(content).hexdigest(), sorted(params.get("signers") or [])]


def _verified_sums(params: Mapping[str, Any], image: Mapping[str, Any]) -> dict[str, Any]:
    sums = fetch.read_small(image["checksums_url"], **fetch.how(params))
    signature = fetch.read_small(image["signature_url"], **fetch.how(params))
    try:
        found = openpgp.verify(
            sums,
            signature,
            keyring=image["keyring"],
            signers=params.get("signers") or [],
            gpg=params["gpg"],
            timeout=params["timeout"],
        )
    except FleetError as exc:
        raise exc.located(address=fetch.shown(image["signature_url"])) from None
    return {"signer": found.primary, "user": found.user, "digests": checksums.parse(sums)}


def _declared(image: Mapping[str, Any], signed: Mapping[str, Any], judgement: Judgement, known: dict[str, Any]) -> str:
    """The artifact's signed digest, which must be the declared one where one is declared."""
    name = fetch.basename(image["url"])
    wanted: str = checksums.listed(signed["digests"], name, "the artifact")
    known["sha256"] = wanted
    if image.get("sha256"):
        judgement.same(
            "declared_digest",
            entity=name,
            measured=bare_sha256(image["sha256"]),
            wanted=wanted,
            source=f"SHA256SUMS signed by {signed['signer']}",
            finding="other_digest_declared",
            text=f"gpufleet_image declares another sha256 for {name} than the signed SHA256SUMS",
        )
    return wanted


def _artifact(
    params: Mapping[str, Any],
    image: Mapping[str, Any],
    signed: dict[str, Any],
    cache: RunCache,
    judgement: Judgement,
    ctx: Context,
    known: dict[str, Any],
) -> None:
    name = fetch.basename(image["url"])
    if not signed["digests"]:
        _self_signed(params, image, cache, judgement, ctx, known)
        return
    wanted = _declared(image, signed, judgement, known)
    if not params["deep"]:
        if not image.get("sha256"):
            _undeclared(judgement, "digest", name, "sha256, since the artifact itself is not read (deep is false)")
        return
    read = _hashed(params, image["url"], cache, ctx)
    known["size"] = read["size"]
    _same_bytes(judgement, "digest", "artifact", name, read["sha256"], wanted, signed)
    _size(image, read, judgement)


def _kernel(
    params: Mapping[str, Any],
    image: Mapping[str, Any],
    signed: Mapping[str, Any],
    cache: RunCache,
    judgement: Judgement,
    ctx: Context,
) -> None:
    """The kernel that a provisioner boots beside the artifact decides as much as the artifact what runs.

    It is always read: it is small, and no provisioner compares it with anything.
    """
    name = fetch.basename(image["kernel_url"])
    if not signed["digests"]:
        _undeclared(judgement, "kernel", name, "checksums_url, a signed list that has it")
        return
    wanted = checksums.listed(signed["digests"], name, "the kernel")
    read = _hashed(params, image["kernel_url"], cache, ctx)
    _same_bytes(judgement, "kernel", "kernel", name, read["sha256"], wanted, signed)


def _same_bytes(
    judgement: Judgement, cell: str, what: str, name: str, measured: str, wanted: str, signed: Mapping[str, Any]
) -> None:
    judgement.same(
        cell,
        entity=name,
        measured=measured,
        wanted=wanted,
        source=f"SHA256SUMS signed by {signed['signer']}",
        finding=f"tampered_{what}",
        text=f"the {what} {name} is not the one that was signed: its sha256 is {measured}, signed was {wanted}",
    )


def _size(image: Mapping[str, Any], read: Mapping[str, Any], judgement: Judgement) -> None:
    if image.get("size") is not None:
        judgement.same(
            "size",
            entity=fetch.basename(image["url"]),
            measured=read["size"],
            wanted=image["size"],
            source="gpufleet_image.size",
            finding="wrong_size",
            text=f"the artifact has {read['size']} bytes, gpufleet_image declares {image['size']}",
        )


def _hashed(params: Mapping[str, Any], url: str, cache: RunCache, ctx: Context) -> dict[str, Any]:
    """Digest and size of a file, read once in a run as long as its server calls it unchanged."""
    began = time.monotonic()

    def opened() -> AbstractContextManager[fetch.Source]:
        return fetch.opened(url, beat=ctx.lifeline.beat, **fetch.how(params))

    def anew() -> dict[str, Any]:
        with opened() as source:
            return {"begun": time.monotonic(), **_digest(source)}

    found: dict[str, Any]
    with opened() as source:
        if source.version:
            found = cache.get(["artifact", url, source.version], lambda: _digest(source))
            return found
    found = cache.get(["artifact", url], anew, good=lambda known: _still("", known, began))
    return found


def _still(version: str, known: Mapping[str, Any], began: float) -> bool:
    """May what another look of this run has read stand for this one?

    Where a server says nothing by which a changed file is noticed, only what was read since this look began.
    """
    return bool(version) or known["begun"] >= began


def _digest(source: fetch.Source) -> dict[str, Any]:
    total, size = hashlib.sha256(), 0
    for piece in source.pieces:
        total.update(piece)
        size += len(piece)
    return {"sha256": total.hexdigest(), "size": size}


def _signed_artifact(params: Mapping[str, Any], image: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
    """Signer, digest and size: the artifact is hashed while gpg reads it, and kept nowhere."""
    get = fetch.how(params)
    begun = time.monotonic()
    signature = fetch.read_small(image["signature_url"], **get)
    total, sizes = hashlib.sha256(), [0]

    def feed(write: Callable[[bytes], None]) -> None:
        with fetch.opened(image["url"], beat=ctx.lifeline.beat, **get) as source:
            for piece in source.pieces:
                write(piece)
                total.update(piece)
                sizes.append(len(piece))

    found = openpgp.verify(
        feed,
        signature,
        keyring=image["keyring"],
        signers=params.get("signers") or [],
        gpg=params["gpg"],
        timeout=params["timeout"],
    )
    return {"begun": begun, "signer": found.primary, "sha256": total.hexdigest(), "size": sum(sizes)}


def _self_signed(
    params: Mapping[str, Any],
    image: Mapping[str, Any],
    cache: RunCache,
    judgement: Judgement,
    ctx: Context,
    known: dict[str, Any],
) -> None:
    """A detached signature over the artifact itself."""
    began = time.monotonic()
    with fetch.opened(image["url"], beat=ctx.lifeline.beat, **fetch.how(params)) as source:
        version = source.version
    key = ["self", image["url"], version, image["signature_url"], *_keyring_key(params, image)]
    good = partial(_still, version, began=began)
    read = cache.get(key, lambda: _signed_artifact(params, image, ctx), good=good)
    known.update(signer=read["signer"], sha256=read["sha256"], size=read["size"])
    name = fetch.basename(image["url"])
    judgement.check(
        "signature",
        entity=name,
        measured=read["signer"],
        wanted=", ".join(params.get("signers") or []) or "a key of the keyring",
        source=image["keyring"],
        verdict=PASS,
    )
    if image.get("sha256"):
        judgement.same(
            "declared_digest",
            entity=name,
            measured=read["sha256"],
            wanted=bare_sha256(image["sha256"]),
            source="gpufleet_image.sha256",
            finding="other_digest_declared",
            text=f"gpufleet_image declares another sha256 for {name} than the signed artifact has",
        )
    _size(image, read, judgement)
