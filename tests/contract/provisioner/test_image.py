# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""provisioner_image over every driver. What each can do with images it declares: keep them, be brought them, tell their
digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    EvidenceMissing,
    TrustError,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import image as images
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line, lead, ready
from served import Served

CONTENT = b"a root file system of no great size\n" * 300


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "INTERVAL", 0.05)


def bring(
    site: Any, image: dict[str, Any], *, check: bool = False, line: Optional[Line] = None, **more: Any
) -> dict[str, Any]:
    ctx = Context(check_mode=check, diff=True, node="gpu001", lifeline=line)
    params = {**site.connection(), "image": image, "driver": site.extras, "timeout": 5.0, **more}
    return images.image(params, ctx).as_dict(ctx)


def new(site: Any, web: Served) -> dict[str, Any]:
    found: dict[str, Any] = site.new_image(web.put("/gold.tar.gz", CONTENT), CONTENT)
    return found


def brought(site: Any) -> bool:
    """Is there something to be brought?"""
    return bool(site.driver.keeps_images and site.driver.takes_images)


def test_an_image_is_brought_once(site: Any, web: Served) -> None:
    image = new(site, web)
    if not brought(site):
        return
    predicted = bring(site, image, check=True)
    assert predicted["changed"] and predicted["before"]["state"] == "absent" and predicted["state"] == "present"
    assert site.faults.writes == [], "check mode sends no write"
    done = bring(site, image)
    assert done["changed"] and done["asked"] and done["proof"] == site.driver.image_proof
    assert {key: predicted[key] for key in ("after", "proof", "sha256")} == {
        key: done[key] for key in ("after", "proof", "sha256")
    }
    site.faults.forget()
    again = bring(site, image)
    assert not again["changed"] and again["before"] == again["after"] and site.faults.writes == []
    assert again["proof"] in (stored.DIGEST, stored.NAME) and again["sha256"] in (image["sha256"], "")
    options = {**site.new(), "image": image}
    assert lead(options, "enrolled", check=True)["undeployable"] == {}, "a node can be deployed with it"


def test_one_that_cannot_be_brought_an_image_says_so_and_knows_what_is_there(site: Any, web: Served) -> None:
    if brought(site) or not site.driver.keeps_images:
        return
    for check in (True, False):
        with pytest.raises(Unsupported, match="cannot be brought an image"):
            bring(site, new(site, web), check=check)
    there = bring(site, site.image())
    assert not there["changed"] and there["proof"] == stored.NAME and there["kept"]
    assert site.faults.writes == []


def test_one_that_keeps_no_image_has_it_proven_at_its_address(site: Any, web: Served) -> None:
    if site.driver.keeps_images:
        return
    image = new(site, web)
    for check in (True, False):
        found = bring(site, image, check=check, image_verified=False)
        assert not found["changed"] and not found["kept"] and found["proof"] == stored.ADDRESS
        assert found["sha256"] == image["sha256"] and found["before"] == found["after"]
    with pytest.raises(TrustError, match="another file than the declared one"):
        bring(site, {**image, "sha256": "f" * 64})
    with pytest.raises(ConfigError, match="nothing says which file"):
        bring(site, {**image, "sha256": ""})
    with pytest.raises(Exception, match="404"):
        bring(site, {**image, "kernel_url": image["url"] + ".vmlinuz"})
    assert site.faults.writes == []


def test_nothing_is_brought_that_this_run_has_not_verified(site: Any, web: Served) -> None:
    image = new(site, web)
    if not brought(site):
        return
    with pytest.raises(EvidenceMissing, match="no image_verify of this run"):
        bring(site, image, image_verified=False)
    with pytest.raises(ConfigError, match="without a digest"):
        bring(site, {key: value for key, value in image.items() if key != "sha256"})
    assert site.faults.writes == []
    # With a reason, whether it was verified is asked of nobody.
    assert bring(site, image, image_verified=None, force_reason="the signer is on leave")["changed"]
    assert not bring(site, image, image_verified=False)["changed"], "what lies there was judged when it was brought"


def test_another_file_under_its_name_is_not_replaced(site: Any, web: Served) -> None:
    """A machine may be about to be deployed with it."""
    image = new(site, web)
    if not brought(site) or site.driver.image_proof != stored.DIGEST:
        return
    bring(site, image)
    site.faults.forget()
    other = {**image, "url": web.put("/other.tar.gz", CONTENT + b"x"), "sha256": "e" * 64}
    for check in (True, False):
        with pytest.raises(ConfigError, match=f"another file under the name.*Wanted: e+.*Seen: {image['sha256']}"):
            bring(site, other, check=check)
    assert site.faults.writes == []


def test_a_lost_answer_is_found_out_by_the_next_run(site: Any, web: Served) -> None:
    if not brought(site):
        return
    for nth in (1, 2):
        image = new(site, web)
        site.faults.forget()
        site.faults.lose_answer(nth)
        with pytest.raises(Unreachable):
            bring(site, image)
        site.faults.forget()
        bring(site, image)
        assert bring(site, image)["changed"] is False


def test_a_run_that_was_killed_anywhere_is_gone_on_with(site: Any, web: Served) -> None:
    if not brought(site):
        return
    for number in range(8):
        image, line = new(site, web), Line(die_at=number)
        try:
            bring(site, image, line=line)
        except Killed:
            assert bring(site, image)["state"] == "present"
            assert not bring(site, image)["changed"]
        else:
            break
    assert 0 < number == len(line.writes), "it died at each of its writes"


def test_what_is_in_the_way_of_all_is_told_as_ever(site: Any, web: Served) -> None:
    if not site.driver.keeps_images:
        return
    image = new(site, web)
    with pytest.raises(AuthFailed):
        bring(site, image, **site.wrong_login())
    site.faults.forget()
    with pytest.raises(Unreachable):
        bring(site, image, **site.nowhere())
    site.faults.forget()
    site.faults.garbage()
    with pytest.raises((BadAnswer, Unreachable)):
        bring(site, image)


def test_an_image_is_none_of_a_nodes_business(site: Any, web: Served) -> None:
    options = ready(site)
    bring(site, site.image() if not brought(site) and site.driver.keeps_images else new(site, web))
    assert not lead(options, "ready")["changed"]
