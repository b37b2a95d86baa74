# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make contract`: the schedulers' drivers certified at a site's own, on the nodes of one prefix and on no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contract.scheduler.schedulers import SlurmRestSite, SlurmSite
from contract.scheduler.site_kubernetes import KubernetesSite
from suite import services

MAKE = Path(__file__).resolve().parents[3] / "make"
WAYS = {"slurm": SlurmSite, "slurmrestd": SlurmRestSite, "kubernetes": KubernetesSite}
LIFE = ["held", "a changed node is not written to", "somebody else's hold is left alone", "drained", "resumed"]


@pytest.fixture(params=list(WAYS))
@services.real
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    return request.param, WAYS[request.param](request, tmp_path)


def certify(way: str, site: Any, folder: Path, prefix: str, timeout: int = 60) -> subprocess.CompletedProcess[str]:
    """As `make contract` starts it, with the rest of the connection in the environment."""
    given = dict(site.reached)
    endpoint = given.pop("scheduler_conf" if way == "slurm" else "scheduler_url")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUFLEET_")}
    env = {**kept, **{f"GPUFLEET_{key.upper()}": value for key, value in given.items()}}
    argv = [sys.executable, str(MAKE / "contract_scheduler.py"), way, endpoint, "--prefix", prefix]
    argv += ["--timeout", str(timeout), "--interval", "0.2", "--report", str(folder)]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def test_a_sites_own_scheduler_is_certified_on_the_nodes_of_a_prefix_alone(
    way: tuple[str, Any], tmp_path: Path
) -> None:
    name, site = way
    done = certify(name, site, tmp_path, "gpu001")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    outcomes = {one["scenario"]: one["outcome"] for one in told["scenarios"]}
    assert told["passed"] and told["machines"] == ["gpu001"] and told["endpoint"]
    assert [outcomes[one] for one in LIFE] == ["passed"] * len(LIFE)
    assert outcomes["a wrong credential is refused"] == ("not applicable" if name == "slurm" else "passed")
    assert site.faults.writes and all("gpu001" in one.what for one in site.faults.writes)
    assert not any(map(site.texts, site.names))
    assert "machines: gpu001 (names that begin with gpu001), and no others" in (tmp_path / f"{name}.txt").read_text()
    secrets = [value for key, value in site.reached.items() if key.endswith("_token")]
    assert not any(secret in done.stdout + done.stderr for secret in secrets)


def test_where_no_certificate_can_lie_nothing_is_tried(tmp_path: Path) -> None:
    """Not even the scheduler is asked: there is none at that address."""
    (tmp_path / "report").write_text("", encoding="utf-8")
    argv = [sys.executable, str(MAKE / "contract_scheduler.py"), "kubernetes", "https://127.0.0.1:9", "--prefix", "gpu"]
    done = subprocess.run([*argv, "--report", str(tmp_path / "report")], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no certificate can be written into" in done.stderr, done.stdout + done.stderr


def test_what_is_a_list_is_read_as_one() -> None:
    """A text would be one taint a letter, and tolerate none that a site means."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUFLEET_")}
    env = {**kept, "GPUFLEET_SCHEDULER_TAINTS": "example.com/gpu, nvidia.com/gpu,"}
    asks = "import json, contract_scheduler as one; print(json.dumps(one.connection('kubernetes', 'https://k8s')))"
    done = subprocess.run([sys.executable, "-c", asks], cwd=MAKE, env=env, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["scheduler_taints"] == ["example.com/gpu", "nvidia.com/gpu"] and "scheduler_ready" not in told


@pytest.mark.parametrize(("prefix", "words"), [("", "say which nodes by PREFIX"), ("nobody", "no node has")])
def test_without_nodes_nothing_is_tried(way: tuple[str, Any], tmp_path: Path, prefix: str, words: str) -> None:
    name, site = way
    done = certify(name, site, tmp_path, prefix)
    assert done.returncode == 2 and words in done.stderr and not site.faults.writes


def test_one_that_is_not_idle_and_nobodys_is_none_to_try_with(way: tuple[str, Any], tmp_path: Path) -> None:
    name, site = way
    site.hold("gpu002", "hands inside")
    done = certify(name, site, tmp_path, "gpu00")
    assert done.returncode == 2 and "gpu002: held" in done.stderr and not site.faults.writes
    assert not (tmp_path / f"{name}.json").exists()


def test_what_fails_is_told_and_the_hold_is_lifted_all_the_same(request: Any, tmp_path: Path) -> None:
    """A pod comes as the node is held, and nobody lets it go."""
    site = KubernetesSite(request, tmp_path)
    left = iter([True])

    def comes(asked: Any) -> None:
        if asked.method == "PATCH" and next(left, False):
            site.guard("gpu001", "not today")

    site.proxy.fault = comes
    done = certify("kubernetes", site, tmp_path, "gpu001", timeout=3)
    told = json.loads((tmp_path / "kubernetes.json").read_text(encoding="utf-8"))
    outcomes = {one["scenario"]: one["outcome"] for one in told["scenarios"]}
    assert done.returncode == 1 and not told["passed"] and [outcomes[one] for one in LIFE[-2:]] == ["failed", "passed"]
    assert "not today" in done.stdout and site.texts("gpu001") == []
