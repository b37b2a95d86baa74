#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_verify
short_description: Verify a golden image by its signature, at its source or as it runs on a node
version_added: "0.1.0"
description:
  - With O(mode=artifact), verifies on the controller that a trusted OpenPGP key signed the image's C(SHA256SUMS), or
    the artifact itself, and that the artifact has the signed digest and the declared size. An artifact is hashed once
    a run, however many hosts use it, as long as its server calls it unchanged. Where the server tells neither C(ETag)
    nor C(Last-Modified), no host goes by what was read before its own task began, and a batch reads the artifact
    several times.
  - What is verified is what lay at the address then. Ironic compares a whole-disk image with its digest once more when
    it writes it; nobody does so with a kernel and a ramdisk, so whoever may write on the image server between this and
    the deploy decides what such a node boots.
  - With O(mode=node), verifies the same signature on the controller, and then on the node that the image that runs is
    that one. The digest of the node's manifest is the signed one, and the running kernel, NVIDIA driver, CUDA and
    Fabric Manager are those of the manifest. The node's clock is compared with the controller's.
  - What is not declared, is missing, or cannot be read is V(inconclusive), and never a pass.
  - A web server that does not answer is asked again for 30 seconds, which all hosts of a run wait together. One that
    stays away has the kind V(unreachable) and says nothing of the image, nor of the node.
  - An expired or revoked key, an expired signature, and a signature that rests on MD5 or SHA-1 are refused.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.verdict
  - gpufleet.baremetal.image
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
notes:
  - Nothing is changed by this module. With O(mode=node) it runs on the node with Python's standard library alone, and
    such a task cannot be delegated.
  - The verdict is recorded in the ledger as C(image_artifact) or C(image_verify); only the second counts for a
    passport.
requirements:
  - GnuPG 2.2 or newer and the Python library requests, on the controller
options:
  mode:
    description:
      - What to verify.
      - With V(machine) no image at all. The node is asked who it is, and where it says that it is another machine than
        the one of O(bmc_identity), of the inventory or of the ledger, the task ends with an error of kind
        C(wrong_machine). What tells nothing of itself contradicts nothing. No verdict is given or recorded.
    type: str
    choices: [artifact, node, machine]
    default: artifact
  keyring:
    description: The keyring, instead of the image's own.
    type: path
  signers:
    description:
      - Full fingerprints of the keys, or of their primary keys, of which one must have signed.
      - Without it each key of the keyring may.
    type: list
    elements: str
  ca_path:
    description:
      - Certificates of the authorities that may vouch for the image server.
      - Without it O(image.ca_path), and without that those of the Python library certifi.
        The environment decides nothing.
    type: path
  deep:
    description:
      - Read the artifact itself and hash it.
      - With V(false) the declared digest must be the signed one, and the artifact is not read; for provisioners
        that verify the declared digest when they write the image.
    type: bool
    default: true
  gpg:
    description: The C(gpg) to run.
    type: path
    default: gpg
  timeout:
    description: Seconds without a byte, or that one tool may take.
    type: int
    default: 60
  manifest_path:
    description: Where the manifest lies on the node.
    type: path
    default: /etc/gpufleet/manifest.json
  driver_version_path:
    description: Where the loaded NVIDIA kernel module tells its version.
    type: path
    default: /proc/driver/nvidia/version
  nvidia_smi:
    description: The C(nvidia-smi) to ask on the node.
    type: path
    default: nvidia-smi
  fabric_manager:
    description: The Fabric Manager to ask for its version; asked only where the manifest names one.
    type: path
    default: nv-fabricmanager
  boot_id_path:
    description: Where the node's kernel tells its boot id.
    type: path
    default: /proc/sys/kernel/random/boot_id
  uptime_path:
    description: Where the node's kernel tells its uptime.
    type: path
    default: /proc/uptime
  dmi_path:
    description: Where the node's kernel shows DMI.
    type: path
    default: /sys/class/dmi/id
  cmdline_path:
    description: Where the node's kernel tells its command line.
    type: path
    default: /proc/cmdline
  config_drive_path:
    description:
      - Where the node shows its config drive. It is read as it lies there, and mounted nowhere.
      - It counts only where it lies on the disk that the running system (V(/)) lies on, whatever is stacked in between.
        Where that cannot be told, it does not count.
    type: path
    default: /dev/disk/by-label/config-2
  mountinfo_path:
    description: Where the node's kernel tells what is mounted.
    type: path
    default: /proc/self/mountinfo
  sysfs_path:
    description: Where the node's kernel shows its devices.
    type: path
    default: /sys
  user_data_path:
    description: Where C(cloud-init) keeps the user data of the running instance on the node.
    type: path
    default: /var/lib/cloud/instance/user-data.txt
  deploy_id:
    description:
      - With O(mode=node), the deployment that must have reached the node (the check C(deployment)). Its id must stand
        on the kernel's command line, in the config drive or in the user data, to where
        M(gpufleet.baremetal.provisioner_node) has it taken. The node is told the digest of the id alone.
      - Of a node that is stateless (a ramdisk of Ironic's), a boot from the network later than O(booted_after) proves
        it as well. The kernel's command line must show it, by C(BOOTIF) of C(gpufleet_boot_mac), or by the id of an
        earlier deployment of this node, whose boot entry Ironic keeps over a rebuild.
      - What is missing is V(inconclusive). Where all else passes, the result has RV(kind=unproven), for which no node
        is quarantined, since it may as well be its boot path, the boot service or the image that did not do its part.
      - Without it an image of the same version counts that was there before.
    type: str
  booted_after:
    description:
      - A point in time, as seconds since the epoch or as ISO 8601 in UTC, after which the node must have been booted.
      - V(0) asks for nothing.
    type: str
  not_boot_id:
    description: The boot id from before the deploy; the node must have another one.
    type: str
  bmc_identity:
    description:
      - Who the node is as its BMC says, as M(gpufleet.baremetal.bmc_info) returns it. With O(mode=node), the machine
        that answers must then be that one (the check C(machine)), so that nothing is run on another one.
      - Another machine ends the task with an error of kind C(wrong_machine). Neither a pass nor a failure is recorded
        of what it answered, and the look counts as inconclusive until it is repeated.
      - Without it nothing proves here that the machine that answers is the one in the inventory.
    type: dict
  max_clock_skew:
    description: Seconds by which the node's clock may differ from the controller's.
    type: float
    default: 2.0
  expect:
    description: What the controller has verified. Filled by the action; a task that sets it is refused.
    type: dict
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Verify the golden image before it goes anywhere
  gpufleet.baremetal.image_verify:
    mode: artifact
    image:
      name: hpc
      version: "1.4"
      url: https://images.example.com/hpc-1.4.tar.gz
      checksums_url: https://images.example.com/SHA256SUMS
      signature_url: https://images.example.com/SHA256SUMS.asc
      manifest_url: https://images.example.com/hpc-1.4.manifest.json
      keyring: /etc/gpufleet/image-signers.gpg

- name: Prove that the declared image runs, and was booted after the deploy
  gpufleet.baremetal.image_verify:
    mode: node
    booted_after: "2026-01-31T08:00:00Z"
    deploy_id: "{{ begun.deploy_id }}"  # of ledger_event with state imaging

- name: Only look, and let the play decide
  gpufleet.baremetal.image_verify:
    mode: node
    fail_on: never
  register: running
"""

RETURN = r"""
verdict:
  description: V(pass), V(fail) or V(inconclusive).
  returned: always
  type: str
  sample: pass
checks:
  description: Each thing looked at, with what was measured, what was wanted, and what says so.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: driver, entity: node, measured: 590.48.01, wanted: 590.48.01, unit: "", source: nvidia-smi, verdict: pass}
findings:
  description: What did not pass, for a person.
  returned: always
  type: list
  elements: dict
  sample:
    - id: other_image
      entity: /etc/gpufleet/manifest.json
      text: "the node runs another image: hpc 1.3, wanted hpc 1.4"
      remedy: remediate_config
remedy:
  description: The heaviest remedy of the findings.
  returned: always
  type: str
  sample: none
image:
  description: What is known of the image; C(sha256) and C(manifest_sha256) are the signed digests.
  returned: always
  type: dict
  sample: {name: hpc, version: "1.4", sha256: "4f2a...", signer: "8F3A..."}
identity:
  description: Who the node is.
  returned: with O(mode=node), where the node was asked
  type: dict
  sample: {serial: GF0001, system_uuid: "", gpu_uuids: [], gpu_problem: "", boot_id: 9d3b8a52-65c2-4a8d-9c0e-7a1f}
kind:
  description:
    - V(artifact) where the image at its source was judged, and no node. A missing file, another digest, a bad signature
      or a web server that does not answer is the site's or a service's failure, for which no node is quarantined.
    - The result of a look at a node has it where the look ended at the image, before the node was asked.
    - V(unproven) where a node is right in all but that nothing proves O(deploy_id).
    - V(config) where a node told nothing of who it is, which root alone may read, and nothing that it told is wrong.
      How it was asked is the site's to set.
  returned: where it is no verdict about the node
  type: str
  sample: artifact
mode:
  description: What was verified.
  returned: always
  type: str
  sample: node
gate:
  description: The name under which the ledger keeps the verdict.
  returned: always
  type: str
  sample: image_verify
tool:
  description: What judged.
  returned: always
  type: dict
  sample: {name: image_verify, version: "1"}
argv:
  description: The tools that were run.
  returned: always
  type: list
  elements: str
  sample: [nvidia-smi]
started:
  description: When it began, in UTC.
  returned: always
  type: str
  sample: "2026-01-31T08:00:00.000Z"
ended:
  description: When it ended, in UTC.
  returned: always
  type: str
  sample: "2026-01-31T08:00:01.000Z"
duration:
  description: How many seconds it took.
  returned: always
  type: float
  sample: 4.2
evidence_digest:
  description: Digest over everything that was read.
  returned: always
  type: str
  sample: "sha256:9f86..."
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import image_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=IMAGE_VERIFY, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = image_verify(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
