#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_passport
short_description: Issue a node's signed passport, verify one, or write it to a file
version_added: "0.1.0"
description:
  - A passport is a signed in-toto statement in a DSSE envelope. It names the machine by chassis serial, system UUID and
    GPU UUIDs, the image that runs, and each gate with what was measured and what was wanted.
  - With O(state=issued), the verdicts of the ledger since the node was last imaged are signed. It is refused unless
    each gate that the policy requires has passed since then, BMC and node are known to be one machine, and the node's
    clock was compared with the controller's. Where a valid passport already says the same, it is kept,
    unless more than the age of its gates stands against a new one.
  - A failure stands until the same question or a stronger one passes, or a person lifts it with
    M(gpufleet.baremetal.ledger_event). A pass of a weaker look, or by another profile, carries no passport. A failure
    of M(gpufleet.baremetal.kernel_log_gate) with a remedy heavier than V(power_cycle) ends by a lift alone.
  - With O(state=verified), the node's newest passport, or the one at O(path), must be signed by a known key, be for
    this machine, not be expired or from the future, and not be weaker than the policy in force. The ledger must not
    know of a later imaging, quarantine or failed gate.
  - With O(state=exported), the node's newest passport is written to O(path), to be handed to whoever asks for it. It
    must be signed by a known key. Whether it still admits the node is told in RV(valid), and one that has expired is
    written too. The node is not asked.
  - What lies with the site's settings alone, as a policy that asks for more than the gates were asked, is told with
    C(error.kind) V(config), and says nothing of the node. What a node lacks is told with V(trust).
  - A passport at O(path) is verified for itself, with nothing but the public key. See the how-to for the same without
    this collection.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.image
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
notes:
  - Name, version and digest of O(image) must be those of the image that runs, as far as they are declared. Its other
    keys are not used here.
  - It runs on the controller. Issuing is not for a delegated task, since only the controller has the ledger.
requirements:
  - The Python library cryptography, on the controller
options:
  state:
    description: What to do.
    type: str
    choices: [issued, verified, exported]
    default: verified
  key_path:
    description:
      - The private Ed25519 key in PEM that signs; must not be readable by others, and must be the key of one of
        O(public_keys) where these are given.
      - Taken from the host variable C(gpufleet_passport_key_path).
    type: path
  key_passphrase:
    description: The passphrase of the private key, where it has one.
    type: str
  public_keys:
    description:
      - The public keys that are known, as paths of PEM files or as PEM text.
      - Taken from the host variable C(gpufleet_passport_public_keys).
    type: list
    elements: str
  identity:
    description:
      - Who the machine is, as M(gpufleet.baremetal.image_verify) returned it in mode V(node), with the keys C(serial),
        C(system_uuid) and C(gpu_uuids).
      - Without it the node is asked over its own connection.
    type: dict
  bmc_identity:
    description:
      - Who the machine is by its BMC, with the keys C(serial) and C(uuid).
      - Needed for O(state=issued), since the passport binds a machine, and the two must speak of the same one.
    type: dict
  policy:
    description:
      - What a passport must show to admit a node. What is left out is the strict default.
      - Excludes O(policy_file).
    type: dict
    suboptions:
      required_gates:
        description: The gates that must have passed. A name that is no gate of a node is refused.
        type: list
        elements: str
        default: [image_verify, dcgm_gate, kernel_log_gate]
      max_gate_age:
        description:
          - Seconds that a gate's pass may be old when the passport is issued. Where it is less than two weeks, those of
            C(soak_gate) are two weeks, and begin after the hours that it was asked for.
        type: int
        default: 86400
      max_lifetime:
        description: Seconds that a passport may live.
        type: int
        default: 7776000
      require_gpus:
        description: Must the passport name GPUs?
        type: bool
        default: true
      profile_digest:
        description:
          - The digest of the SKU profile that gates must have been judged by.
          - Where neither this nor O(policy.profiles) names one, it is that of the profile of O(sku) on this controller.
        type: str
      profiles:
        description: The same by SKU, a mapping.
        type: dict
      gates:
        description:
          - The least question of each gate, a mapping of C(level), C(tests), C(window) (V(imaging) or V(boot)) and
            C(max_age), its own greatest age in seconds.
          - What is not named of a gate is the default, which is level 3 for C(dcgm_gate), and for
            C(kernel_log_gate) the whole log since the imaging.
          - A name that is no gate of the collection is refused.
        type: dict
  policy_file:
    description:
      - The policy as a YAML file on the controller, of the schema C(roles/passport/files/schemas/policy.schema.json).
      - Excludes O(policy).
    type: path
  sku:
    description:
      - The node's SKU, whose profile is in force. One that has no profile is an error, or stands in RV(reasons).
      - Taken from the host variable C(gpufleet_sku).
    type: str
  profile_path:
    description: Folders of the site's own profiles, which are searched before the collection's.
    type: list
    elements: path
  lifetime:
    description: Seconds until a new passport expires.
    type: int
    default: 2592000
  valid_for:
    description:
      - Seconds that the passport must still live. With V(verified), so that it does not expire while the node is being
        admitted; with V(issued), one that is about to expire is not kept but issued anew.
    type: int
    default: 0
  firmware:
    description: The node's firmware inventory, to be signed with the rest.
    type: list
    elements: dict
  attestation:
    description: The result of an attestation of the node, to be signed with the rest.
    type: dict
  path:
    description:
      - With O(state=issued), also write the envelope to this file on the controller.
      - With O(state=exported), write the ledger's newest there. In a folder, which ends with a slash or is there
        already, the file is called by the host's name, C(gpu017.passport.json).
      - With O(state=verified), verify this file instead of what the ledger holds. Neither ledger nor node is asked.
    type: path
  fail:
    description:
      - Fail where the passport is not valid, or none can be issued; with V(false), only say so in RV(valid) and
        RV(reasons).
    type: bool
    default: true
  max_clock_skew:
    description: Seconds by which a passport may seem to come from the future.
    type: float
    default: 2.0
  nvidia_smi:
    description: The C(nvidia-smi) to ask on the node, where O(identity) is left out.
    type: str
    default: nvidia-smi
  dmi_path:
    description: Where the node's kernel shows DMI, where O(identity) is left out.
    type: str
    default: /sys/class/dmi/id
  boot_id_path:
    description: Where the node's kernel tells its boot id, where O(identity) is left out.
    type: str
    default: /proc/sys/kernel/random/boot_id
  same_boot:
    description:
      - With O(state=verified), the last look before the node is given work. The node itself is asked, so leave
        O(identity) and O(path) out. It must still run the boot that its gates have seen, and have the GPUs of the
        passport.
      - A look that finds all of it is recorded, and M(gpufleet.baremetal.scheduler_node) resumes no node without it. A
        node that was booted since is refused with C(error.kind) V(changed), for which it is not quarantined.
    type: bool
    default: false
  evidence:
    description: What the ledger knows. Filled by the action; a task that sets it is refused.
    type: dict
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Issue the passport
  gpufleet.baremetal.node_passport:
    state: issued
    key_path: /etc/gpufleet/passport.pem
    policy:
      required_gates: [image_verify, dcgm_gate, kernel_log_gate]
      max_gate_age: 43200

- name: Admit only a node with a valid passport
  gpufleet.baremetal.node_passport:
    state: verified
    public_keys: [/etc/gpufleet/passport.pub]

- name: Write the passport to a file
  gpufleet.baremetal.node_passport:
    state: exported
    path: ./passports/
    public_keys: [/etc/gpufleet/passport.pub]

- name: Verify a passport that somebody sent, with nothing but the public key
  gpufleet.baremetal.node_passport:
    state: verified
    path: ./gpu017.passport.json
    public_keys: [./passport.pub]
  delegate_to: localhost
"""

RETURN = r"""
valid:
  description: Does the passport admit the node?
  returned: success
  type: bool
  sample: true
reasons:
  description: Everything that stands against the passport; on failure in RV(ignore:error.reasons).
  returned: success
  type: list
  elements: str
  sample: []
passport:
  description: The passport in short; empty where there is none, or none that can be read.
  returned: success
  type: dict
  sample:
    subject: ["chassis-serial:GF0001", "system-uuid:4c4c4544-0038-3510-8052-b4c04f4d3132"]
    issued: "2026-01-31T08:00:00.000Z"
    expires: "2026-03-02T08:00:00.000Z"
    digest: "sha256:9f86..."
    key: "1c3e..."
    gates: {dcgm_gate: pass, image_verify: pass, kernel_log_gate: pass}
    image: {name: hpc, version: "1.4", sha256: "4f2a..."}
envelope:
  description: The signed passport itself.
  returned: with O(state=issued), outside check mode
  type: dict
path:
  description: The file that holds the passport.
  returned: with O(state=exported)
  type: str
  sample: passports/gpu017.passport.json
machine_checked:
  description: Was the passport compared with a machine, or only looked at as a document?
  returned: with O(state=verified)
  type: bool
  sample: true
profile_checked:
  description:
    - Were the gates held against a profile, of the policy or of O(sku)? V(false) where neither is known.
    - Only a document at O(path) is valid without it.
  returned: with O(state=verified)
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import node_passport
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import NODE_PASSPORT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=NODE_PASSPORT, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = node_passport(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
