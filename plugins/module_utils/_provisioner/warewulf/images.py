# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has Warewulf import an image from a registry, by the digest of what was verified. PRIVATE to the collection.

What is known of it, and why the code is as it is:

* Its API imports from a registry alone (``docker://``), verifies no signature, and tells no digest afterwards. A
  reference that holds the digest is what the registry's own protocol compares the manifest with, so no other is taken.
* An archive of the server's own ``wwctl`` imports, which tells no digest either: the archive's is taken there, before
  and after. A folder has none, so none is imported.
* It answers once all has come, which takes minutes. Of an import that broke off, a part lies there under the image's
  name, and reads like a whole one. So it is imported under a name of its own, built there, and then given its name.
* To rename an image is a write to nodes and profiles as well, and has its turn among those.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import (
    ABSENT,
    PARTIAL,
    PRESENT,
    Stored,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import configure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import Record, WarewulfApi

#: Seconds for the import of an image of tens of gigabytes, or for its build.
TIMEOUT = 7200.0
#: Ends the name of what is not whole yet.
PART = ".part-"
#: A key of the option ``driver``: where the image's archive lies on the machine of the task.
ARCHIVE = "archive"
#: The one failure of ``wwctl`` by which all has come (measured of 4.7.0): the server was not told of it, which needs no
#: telling here. Whatever else ends it, a signal or a panic too, may have left a part.
_FAILED, _RELOAD = 255, "failed to reload warewulfd"
#: As many parts are named.
_TOLD = 5
_PINNED = re.compile(r"docker://[^\s@?#]+@sha256:(?P<digest>[0-9a-f]{64})\Z")


def stored(name: str, found: Record | None) -> Stored:
    if found is None:
        return Stored(name, ABSENT)
    if found.get("kernels") and found.get("buildtime"):
        return Stored(name, PRESENT)
    lacks = "a kernel" if not found.get("kernels") else "a build"
    return Stored(
        name,
        PARTIAL,
        lacks=f"it lacks {lacks}",
        do=f"install a kernel in it (wwctl image shell {name}) and build it (wwctl image build {name}), or remove it"
        f" (wwctl image delete {name})",
    )


def unpinned(image: Image) -> str:
    """Why the import of this address would bring something else than was verified; empty where it would not."""
    pinned = _PINNED.match(image.url)
    if pinned is None:
        return f"{image.url.partition('@')[0]} is no reference of the form docker://REGISTRY/NAME@sha256:DIGEST"
    if pinned["digest"] != image.sha256:
        return f"url holds the digest {pinned['digest']}, and sha256 is {image.sha256}"
    return ""


def bring(driver: Driver, api: WarewulfApi, wanted: Wanted, image: Image, there: Stored) -> None:
    """:raises Refused: where a part of somebody's lies there: who made it may still be at work on it."""
    if there.state == PARTIAL:
        raise Refused(
            f"Warewulf's image {image.named} is there, and not ready for use",
            node=wanted.host,
            address=api.address,
            seen=there.lacks,
            do=there.do + ", then run again; nothing was changed",
        )
    archive = str(wanted.extras.get(ARCHIVE) or "")
    why = "" if archive else unpinned(image)
    if why:
        raise ConfigError(
            "Warewulf would import something else than was verified",
            node=wanted.host,
            address=api.address,
            wanted="url: docker://REGISTRY/NAME@sha256:DIGEST in gpufleet_image, and that digest as its sha256",
            seen=why,
            do="pin it, sign a SHA256SUMS that names it, and verify it with image_verify and deep: false; or name"
            f" the verified archive on the Warewulf server as {ARCHIVE} in the option driver of this very task, which"
            " reads no enroll_driver; or import it there by hand (wwctl image import). Nothing was changed",
        )
    _tell_parts(driver, api, wanted, image)
    part = f"{image.named}{PART}{secrets.token_hex(4)}"
    write = _writer(api, wanted)
    if not (_unpacked(driver, wanted, image, archive, part) if archive else _fetched(write, wanted, image, part)):
        return
    _demand_bootable(api, wanted, part)
    write("POST", f"images/{_quoted(part)}/build?force=true", None, "")
    with turn(driver, driver.ctx, [wanted.host]):
        if api.image(image.named) is not None:
            raise Refused(
                f"somebody else has brought {image.named} meanwhile",
                node=wanted.host,
                address=api.address,
                seen=f"ours is {part}",
                do=f"see which of them is right: wwctl image list; wwctl image delete {part}",
            )
        write("PATCH", f"images/{_quoted(part)}?build=true", {"name": image.named}, f"name={image.named}")


def _tell_parts(driver: Driver, api: WarewulfApi, wanted: Wanted, image: Image) -> None:
    """A run that was killed has left one, of tens of gigabytes. No run takes it away: it may be one of another
    controller's, which is at work on it, and of which nobody here knows."""
    parts = sorted(name for name in api.images() if name.startswith(f"{image.named}{PART}"))
    if parts:
        driver.ctx.warnings.append(
            f"{wanted.host}: Warewulf at {api.address} has parts of {image.named} that other imports have"
            f" begun: {', '.join(parts[:_TOLD])}. Those that nobody is at work on: wwctl image delete {parts[0]}"
        )


def _fetched(write: Callable[[str, str, Any, str], bool], wanted: Wanted, image: Image, part: str) -> bool:
    body: dict[str, Any] = {"uri": image.url}
    if said.flag(wanted.extras.get("registry_http")):
        body["nohttps"] = True
    return write("POST", f"images/{_quoted(part)}/import", body, f"uri={image.url}")


def _unpacked(driver: Driver, wanted: Wanted, image: Image, archive: str, part: str) -> bool:
    """:raises Refused: where ``wwctl`` does not say that all of it came: a part has a kernel too, and reads like it."""
    _demand_digest(driver, wanted, image, archive)
    argv = [configure.wwctl(wanted.extras), "image", "import", archive, part]
    if not driver.ctx.may_write(" ".join(argv), nodes=(wanted.host,)):
        return False
    answer = command.run(driver, argv, timeout=TIMEOUT)
    _demand_digest(driver, wanted, image, archive)
    if not _all_came(answer):
        raise Refused(
            f"wwctl could not import {archive}",
            node=wanted.host,
            address=driver.address,
            wanted="exit status 0",
            seen=f"exit status {answer.code}: {short(answer.err)}".rstrip(": "),
            do=f"see on that machine what ended it (its memory, its disk), take a part of it away (wwctl image delete"
            f" {part}), and run again; or import it by hand: wwctl image import {archive} {image.named}",
        )
    return True


def _all_came(answer: command.Answer) -> bool:
    errors = [line for line in answer.err.splitlines() if line.startswith("ERROR")]
    return not answer.code or (answer.code == _FAILED and bool(errors) and all(_RELOAD in one for one in errors))


def _demand_digest(driver: Driver, wanted: Wanted, image: Image, archive: str) -> None:
    """:raises TrustError: where the archive on the machine of the task is another file than was verified."""
    answer = command.run(driver, ["sha256sum", "--", archive], timeout=TIMEOUT)
    told = answer.out.split()[0].lstrip("\\") if answer.out.split() else ""
    if told != image.sha256:
        raise TrustError(
            f"{archive} is not the image that was verified",
            node=wanted.host,
            address=driver.address,
            wanted=image.sha256,
            seen=told or short(answer.err) or "no digest",
            do=f"put the verified archive there, on the machine that runs the task, or correct {ARCHIVE} in driver; of"
            " a folder make an archive first, since a folder has no digest",
        )


def _writer(api: WarewulfApi, wanted: Wanted) -> Callable[[str, str, Any, str], bool]:
    def write(method: str, path: str, body: Any, saying: str) -> bool:
        return api.write(method, path, body, saying=saying, host=wanted.host, timeout=TIMEOUT)

    return write


def _demand_bootable(api: WarewulfApi, wanted: Wanted, part: str) -> None:
    found = api.image(part)
    if found is None or not found.get("kernels"):
        raise Refused(
            "Warewulf has imported the image, and no node could boot it",
            node=wanted.host,
            address=api.address,
            wanted="a kernel in it",
            seen=f"{part} is not there" if found is None else f"{part} has none",
            do=f"build the image anew with a kernel; and wwctl image delete {part}",
        )


def _quoted(name: str) -> str:
    return quote(name, safe="")
