# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role burn_in over a batch: one node passes, one is cut off and goes on, one fails; each in its own way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import begun_last
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import soaked
from contract.gate.test_detached import PLAYBOOK, VALIDATING, Site

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python"),
]
#: What the role leaves to the machine, each host's own.
OF_A_MACHINE = ("nvidia_smi", "source", "path", "uptime_path", "kmsg_path", "pstore_path", "pstore_archive")
#: gpu-burn ends the process that watches it, once: its parent guards it for the one that runs it, whose parent watches.
KILLS = (
    "p() {{ cut -d ' ' -f 4 /proc/$1/stat; }}; [ -e {home}/killed ] ||"
    " {{ touch {home}/killed; kill -9 $(p $(p $PPID)); sleep 9; }}"
)
#: The same on a node whose folder is in memory: the tool outlives that process for long enough to take it away.
FORGETS = f"trap '' TERM; {KILLS.replace('sleep 9', 'rm -r {home}/jobs; sleep 9')}"


class Soaks(Site):
    """Hosts that can be soaked."""

    def soak(self, name: str, body: str = "", **how: Any) -> None:
        home = self.host(name)
        params = soaked.params(home, body=body.format(home=home), **how)
        self.hosts[name].update({key: params[key] for key in (*OF_A_MACHINE, "gpu_burn", "boot_id_path", "pci_path")})

    def _written(self, tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        environment = super()._written(tasks)
        own = yaml.safe_dump(soaked.profile())
        (self.folder / "profiles" / "test-sku.yaml").write_text(own, encoding="utf-8")
        return environment

    def role(self, **settings: Any) -> dict[str, Any]:
        soak = {name: f"{{{{ {name} }}}}" for name in (*OF_A_MACHINE, "boot_id_path", "pci_path")}
        dmi = {"dmi_path": "{{ dmi }}"}
        defaults = {
            "gpufleet.baremetal.soak_gate": {**soak, **dmi, "state_dir": "{{ home }}/jobs"},
            "gpufleet.baremetal.gpu_state_gate": {"nvidia_smi": "{{ nvidia_smi }}", "again_timeout": 0, **dmi},
        }
        known = {"burn_in_hours": soaked.HOURS, "burn_in_interval": 0.3, "burn_in_gpu_burn": "{{ gpu_burn }}"}
        role = {"name": "gpufleet.baremetal.burn_in"}
        task = {"ansible.builtin.import_role": role, "vars": {**known, "gpufleet_scheduler": "none", **settings}}
        return {"block": [task], "module_defaults": defaults}

    def told(self, name: str) -> list[dict[str, Any]]:
        """The verdicts of a host's soaks in the ledger."""
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            rows = ledger.execute(
                "SELECT e.data FROM events e JOIN nodes n USING (node_id)"
                " WHERE n.name = ? AND e.kind = 'verdict' AND e.name = 'soak_gate' ORDER BY e.id",
                (name,),
            ).fetchall()
        return [json.loads(data) for (data,) in rows]


def measured(verdict: Mapping[str, Any], id: str, entity: str = "node") -> Any:
    [found] = [row["measured"] for row in verdict["checks"] if (row["id"], row["entity"]) == (id, entity)]
    return found


def test_each_node_of_a_batch_is_soaked_and_judged(tmp_path: Path) -> None:
    site = Soaks(tmp_path)
    site.soak("well")
    site.soak("cut", body=KILLS)
    site.soak("forgets", body=FORGETS)
    site.soak("hot", look=soaked.document({"temperature/gpu_temp": "93 C"}))
    found = site.play(VALIDATING, site.role())
    well, cut, hot = (found[name][-1] for name in ("well", "cut", "hot"))
    assert (well["verdict"], cut["verdict"], hot["verdict"]) == ("pass", "pass", "fail"), site.output
    assert hot["failed"] and hot["remedy"] == "field_diag" and "max temperature 93 C, wanted at most 88" in hot["msg"]
    assert [one["verdict"] for one in site.told("cut")] == ["inconclusive", "pass"]
    assert site.told("cut")[0]["findings"][0]["id"] == "died"
    [kept] = site.told("well")
    assert kept["asked"]["tests"] == ["burn"] and kept["asked"]["level"] == soaked.HOURS
    assert measured(kept, "temperature", "GPU 7") == "61 to 61, mean 61.0"
    assert measured(kept, "interruptions") == 0 and measured(site.told("cut")[1], "interruptions") == 1
    assert [measured(one, "interruptions") for one in site.told("forgets")[1:]] == [1], site.output


def soaks(register: str, **options: Any) -> dict[str, Any]:
    task = {"hours": soaked.HOURS, "gpu_burn": "{{ gpu_burn }}", "detached": True, "force_reason": "x", **options}
    return {"gpufleet.baremetal.soak_gate": task, "register": register, "ignore_errors": True}


def waits(after: str) -> dict[str, Any]:
    wait = {"gate": "soak_gate", "after": after, "interval": 0.2}
    return {"gpufleet.baremetal.gate_wait": wait, "run_once": True, "register": f"{after}_ended"}


def test_each_soak_has_its_own_end_and_none_is_judged_for_one_that_it_never_had(tmp_path: Path) -> None:
    """One soaks twice, in other words; the job of one is gone without a trace; one fails, and is repaired."""
    site = Soaks(tmp_path)
    for name in ("twice", "lost", "hot", "never"):
        site.soak(name, look=soaked.document({"temperature/gpu_temp": "93 C"} if name == "hot" else {}))
    first, longer = soaks("first"), soaks("longer", tests=["burn"], hours=2)
    first["when"], longer["when"] = "inventory_hostname != 'never'", "inventory_hostname in ['twice', 'lost']"
    gone = {"ansible.builtin.shell": "kill -9 {{ longer.pid }}; rm -r {{ home }}/jobs", "register": "gone"}
    gone["when"] = "inventory_hostname == 'lost'"
    again, end = soaks("again"), soaks("end", stop=True, hours=24)
    again["when"] = "inventory_hostname in ['twice', 'hot']"
    block = [first, waits("first"), longer, again, gone, end, waits("end")]
    found = site.play(VALIDATING, {"block": block, "module_defaults": site.role()["module_defaults"]})
    [refused] = [one for one in found["twice"] if "another_soak" in str(one.get("findings"))]
    assert refused["failed"] and not quarantines(refused), site.output
    assert [one["verdict"] for one in site.told("twice")] == ["pass", "inconclusive"], "of the refusal nothing is told"
    assert len({one["job"] for one in site.told("twice")}) == 2
    assert "somebody has ended the soak" in str(site.told("twice")[1]["findings"])
    assert [one["verdict"] for one in site.told("lost")] == ["pass"] and site.told("never") == []
    assert all(any(one.get("no_soak") for one in found[name]) for name in ("lost", "never"))
    with Ledger(f"sqlite:///{site.folder / 'ledger.sqlite'}") as ledger:
        known = [ledger.identify(name, aliases=[("serial", made.serial_of(name))]) for name in found]
        assert [begun_last(ledger, node) for node in known] == [None] * 4
    # What failed is measured anew once it is written down.
    one, two = (one for one in found["hot"] if "job" in one and "joined" in one and not one["joined"])
    assert one["job"] != two["job"] and [told["verdict"] for told in site.told("hot")] == ["fail", "fail"]


def test_the_playbook_takes_no_node_that_runs_nothing_of_ours_and_ends_what_there_is(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.book("gpufleet.baremetal.burn_in", "--limit", "stopped,retired", "-e", "burn_in_stop=true")
    assert "quarantined" not in fleet.output.lower() and "Hold the node" not in fleet.output, fleet.output
    fleet.book("gpufleet.baremetal.burn_in", "--limit", "stopped,retired", ok=False)
    said = " ".join(fleet.output.split())
    assert said.count("only one that was imaged or adopted can be burned in") >= 2
    with sqlite3.connect(fleet.ledger) as ledger:
        assert ledger.execute(
            "SELECT count(*) FROM events WHERE kind = 'hold' AND run_id NOT LIKE 'r_'"
        ).fetchone() == (0,)
