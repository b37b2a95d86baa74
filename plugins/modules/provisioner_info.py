#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provisioner_info
short_description: Where the nodes of a batch stand at their provisioner
version_added: "0.1.0"
description:
  - Reads state, owner, hold, image, deployment and network of all hosts of the batch, in the words of this collection
    and in the provisioner's own. It takes no lease, and sends no write.
  - One look serves all of them, under C(run_once) and without. Ironic, Warewulf and xCAT list their nodes in one
    answer, MAAS fifty of them.
  - A host that the provisioner does not know is V(absent), and V(unknown) where the login may not be shown all there
    are. What cannot be told of one host (a name that two machines have, a card that belongs to another node, a record
    with another serial) is that host's own verdict.
  - Of each entry of O(nodes) it knows C(host), C(provisioner_id), C(name), C(image), C(boot_mac), C(serial),
    C(bmc_address), C(bmc_system_id) and C(driver).
author: gpufleet.baremetal contributors (@gpufleet)
requirements:
  - openstacksdk >= 4.0 (Ironic)
  - requests >= 2.31 (MAAS and Warewulf)
  - netaddr >= 1.0 (Ironic, MAAS and Warewulf)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
  - gpufleet.baremetal.provisioner
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  thorough:
    description:
      - Ask also what takes requests for each node, such as the cards of a node of Ironic and the serial number that its
        inspection has found. Without it that is told as far as the lists do.
    type: bool
    default: false
  driver:
    description: As in M(gpufleet.baremetal.provisioner_node), for all nodes that have none of their own.
    type: dict
    default: {}
seealso:
  - module: gpufleet.baremetal.provisioner_node
  - module: gpufleet.baremetal.provisioner_wait
"""

EXAMPLES = r"""
- name: See where the batch stands at its provisioner
  gpufleet.baremetal.provisioner_info:
  run_once: true
  register: there

- name: Go on with those that nobody else holds
  ansible.builtin.assert:
    that:
      - there.verdicts[inventory_hostname].ok
      - there.verdicts[inventory_hostname].foreign == ''
"""

RETURN = r"""
verdicts:
  description:
    - One for each host. C(ok) is false where nothing certain can be told of it, or where its record is another
      machine's, with the C(reason) and the C(kind) of the error behind it.
  returned: success
  type: dict
  contains:
    state:
      description:
        - In the words of this collection, C(absent) where there is no such node, C(unknown) where that cannot be told.
      type: str
      sample: deployed
    provision_state:
      description: In the provisioner's own.
      type: str
      sample: active
    provisioner_id:
      description: Its id there.
      type: str
    name:
      description: Its name there.
      type: str
    power:
      description: Its power as the provisioner knows it; empty of one that switches none.
      type: str
    owner:
      description: Its owner, lessee or instance there.
      type: str
    maintenance:
      description: Whether it is in maintenance, or locked.
      type: bool
    hold:
      description: The text of that hold.
      type: str
    foreign:
      description: Why it is not ours to touch, as far as record and ledger tell; empty where it is.
      type: str
    image:
      description: The image that the record says was deployed last.
      type: dict
    deploy_id:
      description: Which deployment of ours that is.
      type: str
    inspection:
      description: V(passed), V(pending), V(failed) or V(unsupported).
      type: str
    network:
      description: C(macs) and C(addresses) as far as the record tells, and whether these are C(complete).
      type: dict
    agrees:
      description: In what record and inventory agree, of V(serial) and V(boot_mac).
      type: list
      elements: str
    last_error:
      description: Its last error.
      type: str
    stamp:
      description: What changes with its next deployment where the provisioner tells of that.
      type: str
provisioner:
  description: Which provisioner was asked.
  returned: success
  type: str
  sample: ironic
deploy_proof:
  description:
    - By what a deployment of this provisioner's is known on its node, see M(gpufleet.baremetal.provisioner_node).
  returned: success
  type: str
  sample: nonce
can:
  description:
    - What this provisioner can do, as its driver declares it (C(inspects), C(holds), C(annotates), C(erases),
      C(owns_power), C(keeps_images)).
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import INFO_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=INFO_SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = info(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
