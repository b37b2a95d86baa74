#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provisioner_image
short_description: Make an image known to the provisioner by its digest
version_added: "0.1.0"
description:
  - Sees whether the declared image lies at the provisioner, and brings it there where nothing lies under its name. It
    deploys nothing, and replaces nothing, since a machine may be about to be deployed with what lies there.
  - At MAAS it uploads the file as the custom image C(NAME-VERSION) for the architecture of the host, in pieces. A run
    that was killed goes on where the one before it left off. The file is read whole in any case, and its last piece is
    sent once its digest is the declared one. MAAS compares it as well, and is read back.
  - At Warewulf its API imports from a registry, C(url) being C(docker://REGISTRY/NAME@sha256:DIGEST) with the digest
    that C(sha256) declares. It is imported and built under a name of its own, and then gets its name. Warewulf tells no
    digest, so of an image that lies there already no more than the name is known. See RV(proof). Of an archive on the
    server, its command C(wwctl) imports it instead (C(archive) in O(driver)).
  - At xCAT it sees whether the C(osimage) is defined and can be given to a node. It makes none.
  - Ironic keeps no image, and has it fetched by its address with each deployment. There it is proven that the address
    leads to the declared file, as read from the machine that runs the task; nothing is changed. Whether the conductor
    or the node reaches that address too, the deployment itself shows.
  - Nothing is brought that M(gpufleet.baremetal.image_verify) with mode V(artifact) has not passed in the same run, for
    this host and these very keys. A O(force_reason) stands in for it.
  - One host of a batch is enough, with C(run_once). Hosts of several architectures need one of each.
author: gpufleet.baremetal contributors (@gpufleet)
requirements:
  - openstacksdk >= 4.0 (Ironic)
  - requests >= 2.31 (MAAS and Warewulf, and an image that lies behind a URL)
  - netaddr >= 1.0 (Ironic, MAAS and Warewulf)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.provisioner
attributes:
  check_mode:
    support: full
    details: Reads what lies there, and tells what would be brought.
  diff_mode:
    support: full
options:
  image:
    description:
      - As in M(gpufleet.baremetal.provisioner_node). C(sha256) is needed, but for an image that lies there already and
        of which nothing else is known. Taken from the host variable C(gpufleet_image).
    type: dict
  properties:
    description: Of these C(cpu_arch) says for which architecture the image is; C(x86_64) without.
    type: dict
    default: {}
  driver:
    description:
      - Settings that only one provisioner knows, as in M(gpufleet.baremetal.provisioner_node).
      - For MAAS also C(filetype), its own word for the kind of the file (V(tgz), V(ddgz) and so on; taken from the end
        of the file's name without), and C(base_image), the release that the image was made of, for instance
        V(ubuntu/noble).
      - For Warewulf also C(registry_http), which is true where its registry speaks no TLS; and C(archive), where the
        verified archive of the image lies on the machine of the task, which is the Warewulf server then. C(wwctl),
        where that command lies, imports it, once the archive's digest is the declared one.
    type: dict
    default: {}
  ca_path:
    description: Certificate authorities for the image's own server; C(ca_path) of the image without.
    type: path
  timeout:
    description: Seconds to wait for another run that brings this image, and for the provisioner to be done with it.
    type: float
    default: 7200.0
  image_verified:
    description: Has this run verified the image? Filled in by the action on the controller.
    type: bool
seealso:
  - module: gpufleet.baremetal.image_verify
  - module: gpufleet.baremetal.provisioner_node
"""

EXAMPLES = r"""
- name: Verify the image
  gpufleet.baremetal.image_verify:
    mode: artifact
  run_once: true

- name: Have it lie at the provisioner
  gpufleet.baremetal.provisioner_image:
  run_once: true
  register: brought

- name: Have Warewulf import a verified archive that lies on its server, where this task runs
  gpufleet.baremetal.provisioner_image:
    driver:
      archive: /srv/images/hpc-1.4.tar
  run_once: true

- name: Upload a disk image to MAAS that is made of Ubuntu 24.04
  gpufleet.baremetal.provisioner_image:
    driver:
      filetype: ddgz
      base_image: ubuntu/noble
  run_once: true
"""

RETURN = r"""
name:
  description: What the provisioner calls the image, or the address that it is fetched by.
  returned: success
  type: str
  sample: hpc-1.4
state:
  description: V(present).
  returned: success
  type: str
sha256:
  description: The digest that the provisioner tells of it, or that was read at its address; empty where none is told.
  returned: success
  type: str
kept:
  description: Whether the provisioner keeps it; false where it fetches it anew each time.
  returned: success
  type: bool
proof:
  description:
    - By what it is known to be the declared one. V(digest), the provisioner tells its digest; V(reference), it was
      fetched just now by a reference that holds the digest; V(address), what lies at its address has that digest;
      V(name), it has no more than the name, and what runs on a node is to be verified there.
  returned: success
  type: str
  sample: digest
before:
  description: What lay there before.
  returned: success
  type: dict
  sample: {state: partial, name: hpc-1.4, sent: 41943040}
after:
  description: What lies there now.
  returned: success
  type: dict
asked:
  description: The writes that were sent.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.image import image
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import IMAGE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=IMAGE_SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = image(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
