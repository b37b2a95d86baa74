# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the verbs that serve one host, or all hosts of a play from one task."""

    DOCUMENTATION = r"""
options:
  batch:
    description:
      - Serve all live hosts of the batch from this one task, which then needs C(run_once). Each of them is served as by
        a task of its own, with what its own host variables say, and has its own verdict under RV(verdicts). What
        befalls one host is no other's trouble, and the task fails only for what is wrong with the task itself.
      - What the task says, it says of all hosts; Ansible fills a template in for the host that runs the task. What one
        machine has for itself, such as O(ignore:bmc_address) or O(ignore:serial), is not the task's to say.
      - The controller serves them, over no node's own connection. What a verb would ask the node itself is not asked,
        as where a task is delegated. The task cannot be delegated to another machine.
    type: bool
  each:
    description:
      - With O(batch=true), the options that each host says for itself. By the name of the option, the name of a
        variable of each host, or the way to what a registered result has, such as C(imaging.deploy_id).
      - What one machine has for itself, such as O(ignore:bmc_address), the login of its BMC, O(ignore:force_reason),
        O(ignore:driver) or O(ignore:annotations), and what the ledger knows of it, is refused where the task, or
        C(module_defaults), says it of all.
      - A star in the way is the host's own name, as in C(enrolled.verdicts.*.result.provisioner_id).
      - It is no template. A host for which nothing is there is not served, and its verdict says so; a variable that is
        null leaves the option out.
    type: dict
  after:
    description:
      - With O(batch=true), the names of registered results, most often one. Only hosts for which all of them are there,
        and neither failed nor skipped, take part. Of the result of another task for the whole batch a host's own
        verdict counts.
      - Name the task right before this one. A host whose block was rescued is alive for Ansible.
    type: list
    elements: str
  at_once:
    description:
      - With O(batch=true), so many hosts are worked on at the same time.
      - V(32) where the task does not say it, and V(1000) for M(gpufleet.baremetal.scheduler_node), whose hosts wait for
        one answer of their scheduler; but V(32) there, too, for holds and resumes at a scheduler that is written to
        node by node, by what the host has that runs the task.
      - Of machines with O(ignore:bmc_protocol=ipmi) at most 16, each of which is spoken to by a process of its own.
    type: int
"""
