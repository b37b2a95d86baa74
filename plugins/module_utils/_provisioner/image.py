# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``provisioner_image``: a provisioner knows an image by its digest. PRIVATE to the collection.

One that keeps images is asked for what lies there under the image's name, and is brought it where nothing does. One
that has images fetched by their address keeps nothing: of it is proven that what lies at that address is the image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _fetch as fetch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    NotProven,
    TrustError,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import bare_sha256
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import DEPLOYED, Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import verified
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

#: Seconds between two looks at an image that the provisioner works on by itself.
INTERVAL = 2.0


def image(params: Mapping[str, Any], ctx: Context) -> Result:
    """Make the provisioner know the declared image; nothing is deployed with it."""
    with connected(params, ctx) as driver:
        require(params, "image", node=ctx.node)
        named = {"name": ctx.node or "image"}
        wanted = wants.of_task({**params, **named}, driver.name, driver.image_needs, ctx.node)
        if wanted.flaw is not None or wanted.image is None:
            raise wanted.flaw or ConfigError("no image is declared", node=wanted.host)
        run = _Asked(driver, wanted, wanted.image, params, ctx)
        away = Away(str(params.get("run_cache") or ""), wanted.host)
        result: Result = away.heard(
            driver.address,
            run.kept if driver.keeps_images else run.at_its_address,
            beat=ctx.lifeline.beat,
            final=lambda: ctx.asked,
        )
        return result


class _Asked:
    """One image that is asked for at one provisioner."""

    def __init__(
        self, driver: Driver, wanted: Wanted, declared: Image, params: Mapping[str, Any], ctx: Context
    ) -> None:
        self._driver, self._wanted, self._image, self._ctx = driver, wanted, declared, ctx
        self._params = params
        self._timeout = float(params.get("timeout") or 0.0)

    # -- at one that keeps images --------------------------------------------------------------------------------

    def kept(self) -> Result:
        before = after = self._looked()
        if before.state != stored.PRESENT:
            self._may_be_brought(before)
            with alone(self._driver, self._ctx, before.name, timeout=self._timeout):
                before = self._looked()  # whoever had the turn before this one may have brought it
                if before.state != stored.PRESENT:
                    self._driver.bring_image(self._wanted, before, self._opened)
            after = self._whole(before)
        brought = before.state != stored.PRESENT
        proof = self._driver.image_proof if brought else stored.DIGEST if after.sha256 else stored.NAME
        return self._result(before, after, proof)

    def _looked(self) -> Stored:
        """:raises ConfigError: where another file has the image's name, which may be in use: nobody replaces it."""
        found = self._driver.stored_image(self._wanted)
        wanted = self._image.sha256
        if found.state == stored.ABSENT or not found.sha256 or not wanted or bare_sha256(found.sha256) == wanted:
            return found
        raise ConfigError(
            f"{self._driver.name} has another file under the name of the image: {found.name}",
            node=self._wanted.host,
            address=self._driver.address,
            wanted=wanted,
            seen=found.sha256 + ("" if found.state == stored.PRESENT else ", announced and not whole"),
            do="give the image another version in gpufleet_image, or remove that one there, if nothing needs it;"
            " nothing was changed",
        )

    def _may_be_brought(self, before: Stored) -> None:
        """Nothing is brought that this run has not verified, nor what could not be told from another file."""
        if not self._driver.takes_images:
            raise Unsupported(
                f"{self._driver.name} cannot be brought an image by this collection, and {before.name} is not there",
                node=self._wanted.host,
                address=self._driver.address,
                wanted=f"the image {before.name} at {self._driver.name}",
                seen=before.lacks or before.state,
                do=before.do or "bring it there by its own tools, then run again; nothing was changed",
            )
        if not self._image.sha256:
            raise ConfigError(
                "an image without a digest is brought to no provisioner",
                node=self._wanted.host,
                wanted="sha256 in gpufleet_image",
                do="declare it; nothing was changed",
            )
        verified(self._driver, self._wanted, DEPLOYED)

    def _whole(self, before: Stored) -> Stored:
        """The image as it lies there now: predicted in check mode, else read back."""
        if self._ctx.check_mode:
            told = self._driver.image_proof == stored.DIGEST
            return Stored(before.name, stored.PRESENT, self._image.sha256 if told else "")
        return self._ctx.wait(
            self._looked,
            lambda found: found.state == stored.PRESENT,
            timeout=self._timeout,
            interval=INTERVAL,
            wanted=f"{before.name} whole at {self._driver.name}",
            seen=lambda found: found.lacks or found.state,
            do="run again: what was brought there is not brought twice",
        )

    # -- at one that has it fetched ------------------------------------------------------------------------------

    def at_its_address(self) -> Result:
        """Nothing is kept there: what is proven is that its address leads to the very file, seen from here."""
        if not self._image.sha256:
            raise ConfigError(
                f"{self._driver.name} has the image fetched by its address, and nothing says which file that is",
                node=self._wanted.host,
                wanted="sha256 in gpufleet_image",
                do="declare it",
            )
        read = self._read_whole()
        if read != self._image.sha256:
            raise TrustError(
                "what lies at the address of the image is another file than the declared one",
                node=self._wanted.host,
                address=fetch.shown(self._image.url),
                wanted=self._image.sha256,
                seen=read,
                do="correct url or sha256 in gpufleet_image, or publish the verified file there",
            )
        if self._image.kernel_url:
            with self._opened(self._image.kernel_url):
                pass
        here = Stored(fetch.shown(self._image.url), stored.PRESENT, self._image.sha256)
        return self._result(here, here, stored.ADDRESS)

    def _read_whole(self) -> str:
        total = hashlib.sha256()
        with self._opened() as source:
            for piece in source.pieces:
                total.update(piece)
        return total.hexdigest()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _opened(self, url: str = "") -> AbstractContextManager[fetch.Source]:
        return fetch.opened(
            url or self._image.url,
            ca_path=self._params.get("ca_path") or (self._params["image"] or {}).get("ca_path"),
            timeout=_READ_SECONDS,
            beat=self._ctx.lifeline.beat,
        )

    def _result(self, before: Stored, after: Stored, proof: str) -> Result:
        if after.state != stored.PRESENT:
            raise NotProven("the image was brought, and is not there", node=self._wanted.host, seen=after.state)
        return Result(
            before=before.seen(),
            after=after.seen(),
            data={
                "name": after.name,
                "state": after.state,
                "sha256": after.sha256,
                "kept": self._driver.keeps_images,
                "proof": proof,
            },
        )


#: Seconds without a byte after which the image's own server is given up.
_READ_SECONDS = 60.0
