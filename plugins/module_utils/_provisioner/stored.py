# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies at a provisioner under the name of an image, in the words of all of them. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._fetch import Source
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

#: Nothing lies there; not all of it does, or it is not ready for use; a node can be deployed with it.
ABSENT, PARTIAL, PRESENT = "absent", "partial", "present"
#: By what it is known that the image there is the declared one: the provisioner tells its digest, the reference that it
#: was fetched by holds it, it has no more than the name, or nothing is kept there and what lies at its address is it.
DIGEST, REFERENCE, NAME, ADDRESS = "digest", "reference", "name", "address"

#: Opens the image at its address; asked by those alone that send its bytes on.
Opened = Callable[[], AbstractContextManager[Source]]


@dataclass(frozen=True)
class Stored:
    """name: as the provisioner calls it. sha256: of the file that lies there or is announced; empty where it is not
    told. sent, size: bytes of it that are there, and that there are to be; 0 where that is not told. lacks: what it
    still needs, in words, and what a person does about it."""

    name: str
    state: str = ABSENT
    sha256: str = ""
    sent: int = 0
    size: int = 0
    lacks: str = ""
    do: str = ""

    def seen(self) -> dict[str, object]:
        told = {"sha256": self.sha256, "sent": self.sent if self.state == PARTIAL else 0}
        return {"state": self.state, "name": self.name, **{key: value for key, value in told.items() if value}}


class OfImages:
    """What a driver says and does about images as such; a part of its contract."""

    name: str
    address: Any

    #: Does it keep images, under names of its own? Without, it has them fetched by their address, and keeps nothing.
    keeps_images: bool = True
    #: Can its driver bring an image there (:meth:`bring_image`)?
    takes_images: bool = False
    #: By what an image there is known to be the declared one, where the provisioner does not tell its digest.
    image_proof: str = NAME

    def stored_image(self, wanted: Wanted) -> Stored:
        """What lies there under the name of ``wanted.image``, for this architecture; it reads. Asked of those
        alone that keep images."""
        raise Unsupported(
            f"{self.name} does not tell which images lie there",
            address=self.address,
            seen="its driver has no stored_image",
            do="look there with its own tools; nothing was sent",
        )

    def bring_image(self, wanted: Wanted, there: Stored, opened: Opened) -> None:
        """Make it lie there whole, or go on where an earlier run has left off. Called where ``takes_images``, with the
        image approved, and by one run of this machine at a time. The verb reads back what came of it.

        :param there: as :meth:`stored_image` has just told it: nothing, or a part of this very file.
        """
        raise Unsupported(f"{self.name} cannot be brought an image", address=self.address)
