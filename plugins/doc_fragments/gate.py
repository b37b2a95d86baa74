# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What all gates have in common."""

    DOCUMENTATION = r"""
options:
  sku:
    description:
      - The node's SKU, which is the name of its profile. Taken from the host variable C(gpufleet_sku).
      - A SKU without a profile is V(inconclusive), and the message names the file to write.
    type: str
  profile:
    description:
      - The SKU profile itself. The action on the controller loads it by O(sku) and hands it to the node.
      - Give it only to run the gate without the collection's profiles; it is checked against the same schema.
    type: dict
  profile_path:
    description:
      - Folders of the site's own profiles, searched before those of the environment variable
        E(GPUFLEET_PROFILE_PATH) and before the collection's.
      - A file C(SKU.site.yaml) there is merged over the whole profile, wherever that was found.
      - Used by the action on the controller alone.
    type: list
    elements: path
  evidence_path:
    description:
      - File on the node for the raw outputs behind the verdict, written for its owner alone and replaced in one step.
      - A link in its place is refused, and so is a folder in which, or on the way to which, others may write.
    type: path
  boot_id_path:
    description: Where the node's kernel tells the id of this boot. What was measured in another boot proves nothing.
    type: path
    default: /proc/sys/kernel/random/boot_id
  dmi_path:
    description:
      - Where the node shows who it is. Before a gate runs, the machine that answers must be the node. Its BMC proves
        that in the same run (the check C(machine) of M(gpufleet.baremetal.image_verify)). Without such a proof what the
        machine tells here, as root, is held against C(gpufleet_serial), C(gpufleet_system_uuid), the ledger and the
        node's passport.
      - One of the serials that the ledger has is enough. A UUID that the passport alone tells does not count where a
        serial agrees, since a board may have been swapped.
      - An equal system UUID outweighs serials that differ. A UUID that boards are delivered with is none.
      - Another machine is refused, and so is one that nothing is known of. Neither leaves a verdict on the node.
      - Used by the action on the controller alone.
    type: path
    default: /sys/class/dmi/id
"""
