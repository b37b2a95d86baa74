#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Look at everything that a run needs, before anything is written
version_added: "0.1.0"
description:
  - Reads settings, ledger, keys, SKU profile and image of every host of the play, asks its BMC, its provisioner and its
    scheduler, and tells all that is wrong at once. What many nodes share is told in one line, with what to do about it.
  - Tells apart whose it is. A setting of the site, or a service that is away, fails the task, before anything is
    written. What is wrong with one node, or is somebody else's, leaves out that node alone.
  - What C(enroll_driver), C(enroll_properties) and C(image_signers) say for the roles counts here as well.
  - A provisioner or a scheduler that is away is asked again for up to 30 seconds, once for all hosts, and says so. What
    stays away is told as a service that does not answer, and as no mistake of a setting.
  - Looks at the whole batch in one task on the controller, where ledger and keys are; use it under C(run_once).
  - Reads only. It makes no ledger, and writes nothing into one.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  hosts:
    description: The hosts to look at. All hosts of the play that have not failed without it.
    type: list
    elements: str
  skip:
    description:
      - Looks to leave out.
      - V(settings) are the host variables C(gpufleet_*) and the options of roles and playbooks, wherever they are set.
        Names that nobody reads, types and choices, what is missing, and what the role C(gate) would not take, or a gate
        of this collection that C(gate_more) names.
      - V(ledger) is whether the ledger can be opened and written, and is one for all hosts.
      - V(keys) is the key that signs passports, its mode, and whether its public half is among the public keys.
      - V(sku) is whether there is a valid profile for C(gpufleet_sku), with what each gate needs of it that the run
        uses, those of C(gate_more) included.
      - V(policy) is whether the policies of the roles C(passport) and C(join) can be read, and a node can meet them by
        what the role C(gate) runs and asks.
      - V(image) is whether the image of C(gpufleet_image) is there, and signature, checksums and manifest fit. The
        artifact itself is not read, which takes minutes; the role C(image) does that. Without it V(provisioner) does
        not ask for what the provisioner lacks for that image either, since nothing is deployed then.
      - V(bmc) is whether the BMC answers and takes the login, and the machine behind it is the one of this host.
      - V(provisioner) is whether the provisioner answers and takes the login, its record is this machine's, and what a
        deployment still lacks there. For Ironic these are hardware types, interfaces, deploy kernel and ramdisk, and
        the file of the BMC's CA on its conductor; for MAAS rights, and images for the machine's architecture.
      - V(scheduler) is whether the scheduler answers, lets this user change nodes, and knows each host's node, which is
        of no other host.
      - V(ssh) is whether the key for SSH may be used, and whether the host key of the node is known here, without which
        nothing reaches a node that was imaged. Nobody is connected to. It is asked of connections of the type C(ssh).
    type: list
    elements: str
    choices: [settings, ledger, keys, sku, policy, image, bmc, provisioner, scheduler, ssh]
    default: []
  stop:
    description: Fail where a setting of the site or a service stands in the way. V(false) only tells it.
    type: bool
    default: true
  threads:
    description: How many peers are asked at once.
    type: int
    default: 64
  title:
    description: The headline of what is shown.
    type: str
    default: Preflight
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Look at everything that a run needs
  gpufleet.baremetal.preflight:
  run_once: true
  register: preflight

- name: Leave out the nodes with a trouble of their own
  ansible.builtin.meta: end_host
  when: preflight.nodes[inventory_hostname].left_out
"""

RETURN = r"""
ok:
  description: Does nothing of the site, and no service, stand in the way?
  returned: always
  type: bool
findings:
  description: All that was found, each cause once.
  returned: always
  type: list
  elements: dict
  contains:
    check:
      description: Which look found it.
      type: str
      sample: keys
    kind:
      description:
        - Whose it is. V(site) is a setting, or what is wrong with all nodes alike; V(service) is a service that does
          not answer as it must. Both stop a run before its first write.
        - V(node) is a node's own, V(somebody_else) is somebody else's; both leave out the node.
        - V(note) stops nothing.
      type: str
      sample: site
    what:
      description: What is wrong.
      type: str
      sample: the passport key may be read by others
    wanted:
      description: What was asked for.
      type: str
    seen:
      description: What was seen in its place.
      type: str
    do:
      description: What to do about it.
      type: str
    address:
      description: The peer that was asked, without credentials.
      type: str
    hosts:
      description: The hosts that share it.
      type: list
      elements: str
    instance:
      description: The host whose words these are, where those of the others differ in no more than names and values.
      type: str
nodes:
  description: By host name, what it comes to.
  returned: always
  type: dict
  contains:
    ok:
      description: Is nothing wrong with it but notes?
      type: bool
    left_out:
      description: Should a run go on without it?
      type: bool
    kind:
      description:
        - Whose such trouble is, V(node) or V(somebody_else), the node's before anybody else's; empty where the node is
          not left out.
      type: str
    reason:
      description: Why it is left out, in words.
      type: str
lines:
  description: The same for people, a line a cause; it is shown as well.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._preflight import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "ledger and keys are on the controller",
        do="run this task without delegate_to; its action looks from the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
