# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page on alerts: what it has a reader write for the sender is all that the sender may need."""

from __future__ import annotations

import re
import runpy
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.desk import Desk, desk
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from contract.docs.blocks import ROOT, blocks

PAGE, SENDER = "docs/how-to/react-to-alerts.md", "extensions/eda/senders/gpufleet_tell.py"


def test_the_sender_is_told_each_of_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for block in blocks(PAGE) for line in block.text.splitlines() if line.startswith("printf")]
    written = tmp_path / "tell.conf"
    typed = "\n".join(lines).replace("/etc/gpufleet/tell.conf", str(written))
    subprocess.run(["sh", "-euc", typed], check=True, timeout=30)
    monkeypatch.setenv("GPUFLEET_TELL_CONFIG", str(written))
    told = runpy.run_path(str(ROOT / SENDER))["settings"]()
    assert all(told.values()), told


def test_alertmanager_is_told_the_ca() -> None:
    [text] = [block.text for block in blocks(PAGE) if "webhook_configs" in block.text]
    [receiver] = yaml.safe_load(text)["receivers"]
    assert receiver["webhook_configs"][0]["http_config"]["tls_config"]["ca_file"]


# -- which label to trust ----------------------------------------------------------------------------------------------

Labels = Mapping[str, str]
#: What a rule of the site adds; what it adds goes before a series' own.
RULE = {"alertname": "GpuXid", "severity": "critical"}
#: What root of the node gpu001 writes into its own metrics.
LIES = {"Hostname": "gpu002", "hostname": "gpu002", "nodename": "gpu002", "node": "gpu002", "gpufleet": "none"}


def relabelled(labels: Labels, configs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """As Prometheus does it, for the two actions that the page has; a pattern is of the whole text."""
    found = dict(labels)
    for one in configs:
        pattern = re.compile(one.get("regex", "(.*)"), re.DOTALL)
        if one.get("action", "replace") == "labeldrop":
            found = {name: value for name, value in found.items() if not pattern.fullmatch(name)}
            continue
        assert one.get("action", "replace") == "replace", one
        match = pattern.fullmatch(";".join(found.get(name, "") for name in one.get("source_labels", [])))
        if match:
            found[one["target_label"]] = match.expand(one.get("replacement", "$1").replace("$1", r"\1"))
    return found


def scraped(job: Mapping[str, Any], series: Labels) -> dict[str, str]:
    """Labels of the target go before a series' own, which are kept as exported_; then those of both are relabelled."""
    assert not job.get("honor_labels", False)
    [address] = job["static_configs"][0]["targets"]
    target = relabelled({"__address__": address}, job.get("relabel_configs", []))
    target = {"instance": address, **{name: value for name, value in target.items() if not name.startswith("__")}}
    merged = {f"exported_{name}" if name in target else name: value for name, value in series.items()}
    return relabelled({**merged, **target}, job.get("metric_relabel_configs", []))


def sent(prometheus: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    """An external label is added only where the alert has none of that name; then the alert is relabelled."""
    whole = {**prometheus["global"]["external_labels"], **labels}
    return {"status": "firing", "labels": relabelled(whole, prometheus["alerting"]["alert_relabel_configs"])}


@pytest.fixture
def told() -> dict[str, Any]:
    """What the page has a reader write, in one: each of the keys is written once."""
    found: dict[str, Any] = {}
    for block in blocks(PAGE):
        written = yaml.safe_load(block.text) if block.language == "yaml" else {}
        wanted = {"global", "scrape_configs", "alerting", "gpufleet_labels", "gpufleet_node_labels"}
        found.update({name: written[name] for name in written.keys() & wanted})
    return found


@pytest.fixture
def counter(told: dict[str, Any], tmp_path: Path) -> Desk:
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    with Ledger(url) as opened:
        ids = [opened.identify(host, aliases=[("serial", f"SN-{host}")]) for host in ("gpu001", "gpu002")]
        opened.append("setup", [(node, Event("state", "admitted", {})) for node in ids])
    return desk({"ledger_url": url, "labels": told["gpufleet_labels"], "node_labels": told["gpufleet_node_labels"]})


def elsewhere(prometheus: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the Prometheus of another cluster, whose nodes have the same names."""
    return yaml.safe_load(yaml.safe_dump(prometheus).replace("ulm", "bonn"))


def answer(
    counter: Desk, prometheus: Mapping[str, Any], job: Mapping[str, Any], series: Labels
) -> tuple[str, str, str]:
    alert = sent(prometheus, {**scraped(job, series), **RULE})
    [one], broke = counter.answers(this_run(0), "alertmanager", {"alerts": [alert]})
    assert broke is None
    return one.host, one.said.do, one.refused


@pytest.mark.parametrize("lies", [{}, LIES, {**LIES, "cluster": "bonn"}], ids=["says nothing", "of a node", "of both"])
def test_a_node_speaks_for_itself_whatever_its_series_say(counter: Desk, told: dict[str, Any], lies: Labels) -> None:
    assert answer(counter, told, told["scrape_configs"][0], lies) == ("gpu001", "recycle", "")


@pytest.mark.parametrize("of_another_job", [False, True])
def test_a_node_of_another_cluster_does_not_speak_for_ours(
    counter: Desk, told: dict[str, Any], of_another_job: bool
) -> None:
    theirs = elsewhere(told)
    job = {**theirs["scrape_configs"][0], **({"metric_relabel_configs": []} if of_another_job else {})}
    host, _do, refused = answer(counter, theirs, job, {**told["gpufleet_labels"], "gpufleet": "recycle"})
    assert not host and "it is of another fleet" in refused


def test_a_series_has_no_label_that_says_whose_it_is(told: dict[str, Any]) -> None:
    has = scraped(told["scrape_configs"][0], {**told["gpufleet_labels"], **LIES})
    assert has == {"instance": "gpu001.example.com:9400", "node": "gpu001.example.com", "exported_node": "gpu002"}
