# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Warewulf imports, and what of an import that broke off is never taken for an image."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import image as images
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line
from warewulf_server.server import image as an_image
from warewulf_server.wwctl import RELOAD


def bring(site: Any, image: dict[str, Any], line: Optional[Line] = None, **more: Any) -> dict[str, Any]:
    ctx = Context(node="gpu001", lifeline=line)
    return images.image({**site.connection(), "image": image, "timeout": 2.0, **more}, ctx).as_dict(ctx)


def new(site: Any) -> dict[str, Any]:
    found: dict[str, Any] = site.new_image("", b"content")
    return found


def test_it_gets_its_name_once_it_is_whole(warewulf_site: Any) -> None:
    image = new(warewulf_site)
    bring(warewulf_site, image)
    verbs = [one.what.partition("?")[0].split("/api/")[-1] for one in warewulf_site.faults.writes]
    part = verbs[0].split("/")[1]
    assert verbs == [f"images/{part}/import", f"images/{part}/build", f"images/{part}"]
    assert part.startswith(f"{image['named']}.part-")
    assert warewulf_site.server.config.images[image["named"]]["buildtime"]
    assert part not in warewulf_site.server.config.images


def test_an_import_that_broke_off_is_no_image(warewulf_site: Any) -> None:
    """A part of it lies there, with a kernel in it, and reads like a whole one."""
    image = new(warewulf_site)
    warewulf_site.server.breaks.add(image["url"])
    with pytest.raises(Refused, match="unexpected EOF"):
        bring(warewulf_site, image)
    assert image["named"] not in warewulf_site.server.config.images
    warewulf_site.server.breaks.clear()
    assert bring(warewulf_site, image)["changed"]


def test_what_a_killed_run_has_left_is_told_and_left(warewulf_site: Any) -> None:
    image, images_there = new(warewulf_site), warewulf_site.server.config.images
    images_there["another.part-00c0ffee"] = an_image()
    with pytest.raises(Killed):
        bring(warewulf_site, image, Line(die_at=1))
    [part] = [name for name in images_there if name.startswith(image["named"])]
    told = bring(warewulf_site, image)
    [warned] = told["warnings"]
    assert f"parts of {image['named']}" in warned and f"wwctl image delete {part}" in warned
    assert part in images_there and "00c0ffee" not in warned
    assert "warnings" not in bring(warewulf_site, image), "it is there, and was told"


def test_nothing_is_imported_but_by_the_digest_that_was_verified(warewulf_site: Any) -> None:
    image = new(warewulf_site)
    for url in (
        "docker://registry.example.com/gold:latest",
        "docker://registry.example.com/gold@sha256:" + "f" * 64,
        "http://registry.example.com/gold.tar.gz",
    ):
        with pytest.raises(ConfigError, match="something else than was verified.*archive in the option driver of this"):
            bring(warewulf_site, {**image, "url": url})
    assert warewulf_site.faults.writes == []


def test_an_image_of_somebodys_that_is_not_ready_is_left(warewulf_site: Any) -> None:
    image = new(warewulf_site)
    warewulf_site.server.config.images[image["named"]] = an_image(buildtime=0)
    with pytest.raises(Refused, match="not ready for use.*lacks a build"):
        bring(warewulf_site, image)
    assert warewulf_site.faults.writes == []


def test_an_image_without_a_kernel_gets_no_name(warewulf_site: Any) -> None:
    image = new(warewulf_site)
    warewulf_site.server.registry[image["url"]] = an_image(kernels=[])
    with pytest.raises(Refused, match="no node could boot it"):
        bring(warewulf_site, image)
    assert image["named"] not in warewulf_site.server.config.images


def test_a_registry_without_tls_is_said(warewulf_site: Any) -> None:
    bring(warewulf_site, new(warewulf_site), driver={"registry_http": True})
    assert b'"nohttps": true' in warewulf_site.faults.writes[0].body
    warewulf_site.faults.forget()
    bring(warewulf_site, new(warewulf_site), driver={"registry_http": "false"})
    assert b"nohttps" not in warewulf_site.faults.writes[0].body


# -- of an archive that lies on the server ---------------------------------------------------------------------------


def archived(site: Any, folder: Path, **found: Any) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """An image that is verified at its address, and its archive on the server."""
    archive = folder / "hpc.tar"
    archive.write_bytes(b"an archive")
    digest = hashlib.sha256(b"an archive").hexdigest()
    site.server.host.archives[digest] = an_image(**found)
    image = {**new(site), "url": "https://images.example.com/hpc.tar", "sha256": digest}
    program = site.server.host.installed(site.server.url, folder)
    return image, {"archive": str(archive), "wwctl": str(program)}, archive


@pytest.mark.parametrize("systemd", [True, False])
def test_an_archive_is_imported_by_wwctl_and_gets_its_name_once_it_is_whole(
    warewulf_site: Any, tmp_path: Path, systemd: bool
) -> None:
    """It exits with 255 as well where nothing but a reload has failed."""
    image, driver, archive = archived(warewulf_site, tmp_path)
    warewulf_site.server.host.systemd, warewulf_site.server.host.ran = systemd, []
    assert bring(warewulf_site, image, driver=driver)["changed"]
    (argv,) = warewulf_site.server.host.ran
    assert argv[:3] == ["image", "import", str(archive)] and argv[3].startswith(f"{image['named']}.part-")
    assert warewulf_site.server.config.images[image["named"]]["buildtime"]
    assert argv[3] not in warewulf_site.server.config.images
    assert not bring(warewulf_site, image, driver=driver)["changed"]


def test_an_archive_of_other_bytes_than_were_verified_is_not_imported(warewulf_site: Any, tmp_path: Path) -> None:
    image, driver, archive = archived(warewulf_site, tmp_path)
    warewulf_site.server.host.ran = []
    archive.write_bytes(b"another archive")
    with pytest.raises(TrustError, match="not the image that was verified"):
        bring(warewulf_site, image, driver=driver)
    with pytest.raises(TrustError, match=r"directory.*of a folder make an archive first"):
        bring(warewulf_site, image, driver={**driver, "archive": str(tmp_path)})
    assert warewulf_site.server.host.ran == [] and image["named"] not in warewulf_site.server.config.images


def test_an_archive_that_does_not_come_whole_is_no_image(warewulf_site: Any, tmp_path: Path) -> None:
    image, driver, _archive = archived(warewulf_site, tmp_path, kernels=[])
    with pytest.raises(Refused, match="no node could boot it"):
        bring(warewulf_site, image, driver=driver)
    warewulf_site.server.host.breaks = True
    with pytest.raises(Refused, match="unexpected EOF"):
        bring(warewulf_site, image, driver=driver)
    warewulf_site.server.host.breaks = False
    assert image["named"] not in warewulf_site.server.config.images


@pytest.mark.parametrize(
    "ends",
    [
        (-9, ""),  # killed for memory
        (137, "Killed"),
        (2, "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n"),
        (255, ""),
        (255, "ERROR: could not build image: no space left on device\n"),
        (255, "ERROR: could not write: no space left on device\n" + RELOAD),
        (1, RELOAD),
    ],
    ids=["killed", "killed in a shell", "panic", "no word", "another error", "two errors", "another status"],
)
def test_an_import_that_ended_midway_gets_no_name(warewulf_site: Any, tmp_path: Path, ends: tuple[int, str]) -> None:
    """What it has left has a kernel, and builds."""
    image, driver, _archive = archived(warewulf_site, tmp_path)
    host = warewulf_site.server.host
    host.systemd, host.ran, host.dies = True, [], ends
    try:
        with pytest.raises(Refused, match=f"exit status {ends[0]}") as refused:
            bring(warewulf_site, image, driver=driver)
    finally:
        host.dies = None
    part = host.ran[-1][3]
    assert f"wwctl image delete {part}" in str(refused.value)
    assert warewulf_site.server.config.images[part]["kernels"] and warewulf_site.faults.writes == []
    assert image["named"] not in warewulf_site.server.config.images
    assert bring(warewulf_site, image, driver=driver)["changed"], "what it has left is in nobody's way"
