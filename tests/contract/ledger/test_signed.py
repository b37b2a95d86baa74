# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the passports of a ledger say of it: of a backup too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.ledger_store import judge_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import upkeep
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.copies import Asked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import digest_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc
from contract.ledger.kept import backed_up
from passports import KEY, PUBLIC, STRANGER


def with_passport(url: str, envelope: dict[str, Any], digest: str = "") -> str:
    with Ledger(url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S1")])
        digest = digest or digest_of(envelope)
        ledger.save_passport("r", node, issued=time.time(), expires=4e9, digest=digest, envelope=envelope)
    return url


def judged(url: str, state: str, say: Callable[[str], None] = print, **params: Any) -> dict[str, Any]:
    judge = judge_of(dsse.public_keys([PUBLIC]), state, say)
    return upkeep.kept(Asked(url, {"state": state, **params}, "r", say=say, judge=judge)).data


def of_another_node() -> dict[str, Any]:
    """Altered, and with its known signer's name: the digest was made to fit."""
    signed, other = dsse.sign({"subject": ["gpu001"]}, KEY), dsse.sign({"subject": ["gpu002"]}, KEY)
    return json.loads(json.dumps({**signed, "payload": other["payload"]}))


@pytest.mark.parametrize(
    ("envelope", "digest", "words"),
    [
        (of_another_node(), "", "1 passports: the signature does not fit: the passport has been altered"),
        (dsse.sign({"subject": []}, KEY), "sha256:another", "1 passports: it is another one than its digest says"),
    ],
)
def test_c10_no_ledger_with_an_altered_passport_verifies_or_is_restored(
    tmp_path: Path, envelope: dict[str, Any], digest: str, words: str
) -> None:
    """A signature that does not fit, by a signer who is known, is no passport of another signer."""
    url = with_passport(f"sqlite:///{tmp_path}/l.sqlite", envelope, digest)
    with pytest.raises(BadAnswer, match=words):
        judged(url, "verified")
    said: list[str] = []
    with pytest.raises(BadAnswer, match=words):
        judged(f"sqlite:///{tmp_path}/new.sqlite", "restored", said.append, path=backed_up(url, tmp_path))
    assert said == [] and not (tmp_path / "new.sqlite").exists()


@pytest.mark.parametrize("name", ["expires", "issued", "node", "nothing"])
def test_c10_a_row_that_says_of_its_passport_what_was_not_signed_is_told(tmp_path: Path, name: str) -> None:
    """By its row a passport is found to be a node's, and to be due: who moves the end there has it never renewed."""
    url, now = f"sqlite:///{tmp_path}/l.sqlite", time.time()
    with Ledger(url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S1")])
        told = {"issued": utc(now), "expires": utc(now + 60), "node": {"id": node, "name": "gpu001"}}
        other = {"issued": utc(now - 60), "expires": utc(now + 6e6), "node": {"id": "n-of-another"}}
        signed = dsse.sign({"predicate": {**told, **({name: other[name]} if name in other else {})}}, KEY)
        row = {"issued": seconds(told["issued"]), "expires": seconds(told["expires"])}
        ledger.save_passport("r", node, **row, digest=digest_of(signed), envelope=signed)
    if name == "nothing":
        judged(url, "verified")
        return
    of_what = "its node" if name == "node" else name
    with pytest.raises(BadAnswer, match=f"1 passports: its row says of {of_what} what was"):
        judged(url, "verified")
    with pytest.raises(BadAnswer, match="what was not signed"):
        judged(f"sqlite:///{tmp_path}/new.sqlite", "restored", path=backed_up(url, tmp_path))


def test_c10_a_passport_of_an_unknown_signer_is_told_and_keeps_no_backup_from_being_restored(tmp_path: Path) -> None:
    url = with_passport(f"sqlite:///{tmp_path}/l.sqlite", dsse.sign({"subject": []}, STRANGER))
    with pytest.raises(BadAnswer, match="signed by an unknown key"):
        judged(url, "verified")
    said: list[str] = []
    judged(f"sqlite:///{tmp_path}/new.sqlite", "restored", said.append, path=backed_up(url, tmp_path))
    assert "signed by an unknown key" in said[0] and (tmp_path / "new.sqlite").exists()
