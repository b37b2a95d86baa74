# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``image_verify``. PRIVATE to the collection.

Mode ``artifact`` runs where signatures are verified, on the controller; mode ``node`` on the node, against what the
controller has verified before.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import deployed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.answer import FORGED, take
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import Cell, verify_artifact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.clock import check_clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import (
    AS_ROOT,
    another,
    judge_machine,
    normal_identity,
    untold,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement, result_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import Cells, judge_node, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import INCONCLUSIVE, PASS, sentence

#: What tells one declared image from another.
_DECLARED = ("name", "version", "sha256")
#: What the record says of the image; the rest of the expectations is the manifest's own content.
IMAGE_FACTS = ("name", "version", "sha256", "size", "manifest_sha256", "signer")
#: Whose failure it is where the image at its source was not verified (its server's where that alone was away), and
#: where nobody knows whether the deployment reached the node: see _quarantine.py.
_ARTIFACT, _UNPROVEN = "artifact", "unproven"


def image_verify(params: Mapping[str, Any], ctx: Context) -> Result:
    """Verify the artifact, or this node; nothing is changed by either."""
    if params["mode"] == "machine":
        raise Unsupported("who a node is knows the controller alone", do="run it as an ordinary task of the play")
    if params["mode"] == "artifact":
        judgement, known = verify_artifact(params, ctx)
        image = {**facts(known), "declared": declaration(params["image"])}
        more = {"mode": "artifact", "image": image}
        return of_the_source(judgement, params, more)
    begun = time.time()
    judgement, identity = judge_node(params)
    result = result_of(
        judgement,
        fail_on=params["fail_on"],
        more={"mode": "node", "image": facts(params["expect"]), "identity": identity},
    )
    # Read by the action, which was there before and after: the node's clock, and how long this took.
    result.data["clock"] = {"begun": begun, "ended": time.time()}
    return result


def of_the_source(judgement: Judgement, params: Mapping[str, Any], more: Mapping[str, Any]) -> Result:
    """The result where no node was asked: that an image is missing, or is not what was signed, is no node's fault."""
    result = result_of(judgement, fail_on=params["fail_on"], more=more, asked=asked_of(judgement, params))
    result.data.update(no_nodes_fault(result.data, params["image"]))
    return result


def no_nodes_fault(verdict: Mapping[str, Any], image: Mapping[str, Any]) -> dict[str, str]:
    """What such a result says beside its verdict."""
    words, named = sentence(verdict, shown=10), f"the image {image.get('name')} {image.get('version')}"
    silent = {finding["id"] for finding in verdict["findings"]} == {Unreachable.kind}
    if silent:
        words = f"the server of {named}, and no verdict about the node: {words}"
    elif verdict["verdict"] != PASS:
        words = f"{named} itself, and no verdict about the node: {words}"
    return {"kind": Unreachable.kind if silent else _ARTIFACT, "msg": words}


def combined(
    controller: Judgement,
    expect: Mapping[str, Any],
    node: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    offset: Sequence[float] | None,
) -> Result:
    """One verdict out of the controller's (the signature), the node's (what runs), and the clock between both.

    :param node: the module's result: a stranger's word.
    :param params: the task's options.
    """
    try:
        return _combined(controller, expect, node, params, required(expect, params), offset)
    except Exception as exc:  # an answer that breaks what reads it is one all the same, and no pass
        told = f"what the node answered cannot be believed: it cannot be read: {type(exc).__name__}: {cut(exc, 120)}"
        return unanswered(controller, expect, params, FORGED, told)


def unanswered(
    controller: Judgement, expect: Mapping[str, Any], params: Mapping[str, Any], finding: str, text: str
) -> Result:
    """The controller's own verdict where the node gave none: what it runs is unknown, whatever it ran before."""
    whole = _begun(controller, required(expect, params))
    whole.sheet.unsettled(finding, "node", text)
    more = {"mode": "node", "image": facts(expect)}
    return result_of(whole, fail_on=params["fail_on"], more=more, asked=asked_of(whole, params))


def _begun(controller: Judgement, cells: Iterable[Cell]) -> Judgement:
    whole = Judgement("image_verify", copy.deepcopy(controller.sheet), list(controller.argv), controller.started)
    whole.require(*cells)
    return whole


def _combined(
    controller: Judgement,
    expect: Mapping[str, Any],
    node: Mapping[str, Any],
    params: Mapping[str, Any],
    cells: Cells,
    offset: Sequence[float] | None,
) -> Result:
    whole = _begun(controller, cells)
    believed = node if take(whole, node, cells) else {}
    whole.argv += believed.get("argv") or []
    whole.evidence = {"controller": controller.evidence, "node": believed.get("evidence_digest"), "offset": offset}
    check_clock(whole, offset, params["max_clock_skew"])
    machine = normal_identity(believed.get("identity"))
    if params.get("bmc_identity"):
        if another(normal_identity(params["bmc_identity"]), machine):
            whole = _begun(controller, cells)  # of what was measured there nothing is the node's
        judge_machine(whole, normal_identity(params["bmc_identity"]), machine)
    more = {"mode": "node", "image": facts(expect), "identity": machine}
    result = result_of(whole, fail_on=params["fail_on"], more=more, asked=asked_of(whole, params))
    return _not_as_root(result) if believed and untold(machine) else _unproven(result)


def _not_as_root(result: Result) -> Result:
    """What a node could not read that does not even tell who it is says nothing of it: how it was asked is the site's
    to set. What it did read, and is wrong, is its own."""
    forged = any(finding["id"] == FORGED for finding in result.data["findings"])
    if result.data["verdict"] == INCONCLUSIVE and not forged:
        result.data.update(kind=ConfigError.kind, msg=f"{result.data['msg']} (who the node is {AS_ROOT})")
    return result


def _unproven(result: Result) -> Result:
    """Where all is right but that nothing proves the deployment, it is no verdict about the node."""
    short = [check["id"] for check in result.data["checks"] if check["verdict"] != PASS]
    if short == [deployed.CHECK] and len(result.data["findings"]) == 1:
        result.data["kind"] = _UNPROVEN
    return result


def asked_of(judgement: Judgement, params: Mapping[str, Any]) -> dict[str, Any]:
    """The question: which image was declared, and each cell that had to be seen."""
    image = {key: str(value) for key, value in (params.get("image") or {}).items() if key in _DECLARED and value}
    return {"tests": sorted(judgement.sheet.demanded()), "image": image}


def facts(known: Mapping[str, Any]) -> dict[str, Any]:
    return {key: known[key] for key in IMAGE_FACTS if known.get(key) not in (None, "")}
