#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: evidence_bundle
short_description: Pack all that is known of a node, for the maker of a part that failed
version_added: "0.1.0"
description:
  - Writes one archive a node on the controller. It has what the ledger tells of the machine, with each verdict and what
    was measured, its newest passport, and what M(gpufleet.baremetal.bmc_info), M(gpufleet.baremetal.bmc_log) and
    M(gpufleet.baremetal.node_evidence) have read.
  - C(MANIFEST.json) in it names each file with its digest, and what could not be had. A node that answers nobody any
    more has its evidence, too.
  - What was read of another machine than the node is left out, and said. Secrets are masked, but in O(files).
  - That it was made is noted in the ledger, with its digest.
author:
  - gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  folder:
    description: Where to write it, on the controller. It is made where it is not there, for its owner alone.
    type: path
    required: true
  case:
    description: The number of the case, as the maker or the site has it. It becomes a part of the file's name.
    type: str
    default: ""
  bmc:
    description: What M(gpufleet.baremetal.bmc_info) has returned of this host, also where it failed.
    type: dict
    default: {}
  bmc_log:
    description: What M(gpufleet.baremetal.bmc_log) has returned of this host, also where it failed.
    type: dict
    default: {}
  node:
    description: What M(gpufleet.baremetal.node_evidence) has returned of this host, also where it failed.
    type: dict
    default: {}
  files:
    description:
      - Further files of the controller, such as a maker's own report. They are added as they are, at most 256 MiB each.
    type: list
    elements: path
    default: []
notes:
  - It works through its action on the controller alone, which has the ledger. The module by itself fails and says so.
seealso:
  - module: gpufleet.baremetal.node_evidence
  - module: gpufleet.baremetal.bmc_log
  - module: gpufleet.baremetal.node_history
"""

EXAMPLES = r"""
- name: Ask the BMC for its log
  gpufleet.baremetal.bmc_log:
  register: log
  failed_when: false

- name: Pack what is known of the node
  gpufleet.baremetal.evidence_bundle:
    folder: /var/lib/gpufleet/evidence
    case: RMA-4711
    bmc_log: "{{ log }}"
"""

RETURN = r"""
path:
  description: The archive.
  returned: success
  type: str
  sample: /var/lib/gpufleet/evidence/gpu001_SN0001_RMA-4711_20261128T092300Z.tar.xz
sha256:
  description: Its digest.
  returned: success
  type: str
  sample: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
files:
  description: What is in it.
  returned: success
  type: list
  elements: str
  sample: [README.txt, bmc/log.json, ledger/events.json, ledger/story.txt, node/gpus.txt]
lacks:
  description: What could not be had, and why.
  returned: success
  type: list
  elements: str
  sample: ["node: the node does not answer"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.specs import BUNDLE


def main() -> None:
    module = AnsibleModule(argument_spec=BUNDLE, supports_check_mode=True)
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action packs what is known in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
