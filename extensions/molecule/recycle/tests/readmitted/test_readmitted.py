# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After the fault was lifted: every node is in service, the mended one by a reimage and a passport of its own."""

from __future__ import annotations

FAULTY = "gpu003"


def test_slurm_gives_every_node_work(slurm):
    assert slurm == ("idle", "none")


def test_the_ledger_says_admitted_with_a_passport(states):
    name, data = states[-1]
    assert name == "admitted" and data["passport"].startswith("sha256:")


def test_the_mended_node_was_imaged_anew(node, states):
    imaged = [name for name, _data in states].count("imaging")
    assert imaged == (3 if node["inventory_hostname"] == FAULTY else 1)


def test_each_admission_has_its_own_passport(node, states):
    passports = [data["passport"] for name, data in states if name == "admitted"]
    if node["inventory_hostname"] == FAULTY:
        assert len(set(passports)) == 2


def test_no_gpu_is_missing_any_more(host, node):
    assert host.run("grep -q 'Xid.*: 79' /dev/kmsg").rc != 0
    assert host.check_output("nvidia-smi -L | wc -l").strip() == "8"
