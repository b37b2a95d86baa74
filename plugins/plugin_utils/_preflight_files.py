# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies on the controller, or is fetched by it: keys, profile, image, ledger. PRIVATE to the collection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _fetch as fetch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    OlderLedger,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import NEEDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import verify_artifact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_gates as gates
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import NOTE, SERVICE, SITE, Cause, cause_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._keys import listed
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._one_ledger import of_this_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

LEDGER, KEYS, SKU, IMAGE = "ledger", "keys", "sku", "image"
#: Findings on an image that another look at its server may not have.
_OF_A_SERVER = frozenset({Unreachable.kind, BadAnswer.kind, DeadlineExceeded.kind})
#: The artifact itself is not read here, which takes minutes: that nothing tells its digest without that is no finding.
_READ_LATER = "digest_not_declared"


# -- ledger --------------------------------------------------------------------------------------------------------


def ledger(batch: Batch) -> None:
    """Can it be opened and written, and is it one for all?"""
    places = batch.alike(batch.hosts, lambda host: batch.text(host, "gpufleet_ledger_url"))
    for url, hosts in places.values():
        batch.try_for(hosts, LEDGER, _one_ledger, batch, url, hosts)
    if len(places) > 1:
        seen = f"{len(places)} ledgers"
        do = "set gpufleet_ledger_url once, for all: a run sees no lease and no hold of another ledger"
        batch.tell(batch.hosts, Cause(LEDGER, NOTE, "the hosts of this run have several ledgers", seen=seen, do=do))


def _one_ledger(batch: Batch, url: str, hosts: list[str]) -> None:
    try:
        with of_this_run(url, create=False) as one:
            problem, address = one.unwritable(), one.shown_url
    except OlderLedger as exc:  # a look alters nothing, and must not keep the run from it
        what = "the ledger was written by an older release of this collection: the first run alters its tables"
        do = "let no controller of the older release work with it any more; until it is altered, --check is refused"
        batch.tell(hosts, Cause(LEDGER, NOTE, what, exc.wanted, exc.seen, do, exc.address))
        return
    if problem:
        do = "let this user write there, or correct gpufleet_ledger_url"
        batch.tell(hosts, Cause(LEDGER, SITE, "the ledger cannot be written", seen=problem, do=do, address=address))
    elif not url and not os.environ.get("GPUFLEET_LEDGER_URL"):
        what = "gpufleet_ledger_url is not set: the ledger is this machine's, and no run on another machine sees it"
        do = "set it to a PostgreSQL where runs begin on several machines"
        batch.tell(hosts, Cause(LEDGER, NOTE, what, seen=address, do=do))


# -- keys ----------------------------------------------------------------------------------------------------------


def keys(batch: Batch) -> None:
    names = ("gpufleet_passport_key_path", "gpufleet_passport_public_keys")
    for said, hosts in batch.alike(
        batch.with_all(*names), lambda host: [batch.value(host, one) for one in names]
    ).values():
        batch.try_for(hosts, KEYS, _signs, str(said[0]), listed(said[1]))


def _signs(path: str, public: list[str]) -> None:
    dsse.check_known(dsse.private_key(path), public, path)


# -- profile -------------------------------------------------------------------------------------------------------


def sku(batch: Batch) -> None:
    """Is there a profile, and does it have what each gate needs that the run uses?"""

    def said(host: str) -> tuple[str, dict[str, Any]]:
        return batch.text(host, "gpufleet_sku"), gates.options_of(batch, host)

    for (name, options), hosts in batch.alike(batch.with_all("gpufleet_sku"), said).values():
        batch.try_for(hosts, SKU, _judged_by, batch, hosts, name, options)


def _judged_by(batch: Batch, hosts: list[str], name: str, options: Mapping[str, Any]) -> None:
    profile = profile_of({"sku": name})
    wanted = wanted_of(profile.data)
    for gate, how in gates.runs(options).items():
        # One that is given a folder of its own judges by what lies there.
        if how.get("profile") or how.get("profile_path") or str(how.get("sku") or name) != name:
            continue
        try:
            NEEDS.get(gate, _nothing)(how, wanted)
        except ConfigError as exc:
            batch.tell(hosts, cause_of(SKU, exc.located(address=profile.path)))


def _nothing(_how: Mapping[str, Any], _wanted: object) -> None:
    """A gate that is being written, and has no line in the registry yet."""


# -- image ---------------------------------------------------------------------------------------------------------


def image(batch: Batch) -> None:
    """Signature, list of checksums, manifest and kernel are verified as they will be; the artifact has to be there."""

    def said(host: str) -> tuple[Any, Any]:
        return batch.value(host, "gpufleet_image"), batch.value(host, "image_signers")

    for (declared, signers), hosts in batch.alike(batch.with_all("gpufleet_image"), said).values():
        given = {"image": declared, "deep": False, **({"signers": signers} if signers else {})}
        batch.try_for(hosts, IMAGE, _verified, batch, given, hosts)


def _verified(batch: Batch, given: Mapping[str, Any], hosts: list[str]) -> None:
    declared = {key: value for key, value in given["image"].items() if value is not None}
    params = ArgumentSpecValidator(dict(IMAGE_VERIFY)).validate({**given, "image": declared}).validated_parameters
    image = params["image"]  # as the verb has it: its paths may begin with "~"
    judgement, _known = verify_artifact(params, Context(check_mode=True))
    told = [one for one in judgement.as_dict()["findings"] if one["id"] != _READ_LATER]
    for finding in told if judgement.sheet.findings else []:
        kind = SERVICE if finding["id"] in _OF_A_SERVER else SITE
        batch.tell(hosts, Cause(IMAGE, kind, finding["text"]))
    try:
        with fetch.opened(str(image["url"]), ca_path=image.get("ca_path"), timeout=params["timeout"]):
            pass
    except FleetError as exc:
        batch.tell(hosts, cause_of(IMAGE, exc))
