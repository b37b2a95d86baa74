# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that the page on Kubernetes tells a reader to write: each is an option, and the driver goes by it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import SCHEDULER
from contract.docs.blocks import blocks
from contract.scheduler.site_kubernetes import KubernetesSite
from contract.scheduler.verbs import TOKEN, node

NAME, OTHER = "gpu001", "gpu002"


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def test_the_variables_of_the_page_are_options_of_the_driver_which_takes_them(
    site: KubernetesSite, tmp_path: Path
) -> None:
    [told] = [yaml.safe_load(block.text) for block in blocks("docs/how-to/kubernetes.md") if block.language == "yaml"]
    given = {name.removeprefix("gpufleet_"): value for name, value in told.items()}
    assert given.pop("scheduler_node") and given["scheduler"] == "kubernetes"
    checked = ArgumentSpecValidator({**SCHEDULER}).validate(given)
    assert not checked.error_messages and checked.validated_parameters["scheduler_evict"] == ["local_data"]
    token = tmp_path / "k8s-token"
    token.write_text(f"{site.reached['scheduler_token']}\n", encoding="ascii")
    here = {"scheduler_url": site.reached["scheduler_url"], "scheduler_token_path": str(token)}
    reached = {**{name: value for name, value in given.items() if name != "scheduler"}, **here}
    # The server of the tests shows no certificate.
    reached.pop("scheduler_ca_path")
    site.people.taint(NAME, "example.com/dedicated", "ml")
    site.people.taint(OTHER, "example.com/other", "ml")
    site.reached = reached
    seen = site.open().states([NAME, OTHER])
    served = {name: view.in_service for name, view in seen.items()}
    assert served == {NAME: True, OTHER: False}, "the taints of the page stand there for good"
    node(site, NAME, "held")
    assert TOKEN in site.texts(NAME)
