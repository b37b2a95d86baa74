# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a scheduler is reached."""

    DOCUMENTATION = r"""
options:
  scheduler:
    description:
      - The scheduler that the node belongs to; V(none) for a node that no scheduler knows.
      - Taken from the host variable C(gpufleet_scheduler).
    type: str
    choices: [slurm, kubernetes, none]
  scheduler_conf:
    description:
      - For Slurm the path of C(slurm.conf) on the machine that runs the Slurm commands; the commands' own default
        without it.
      - For Kubernetes the path of a kubeconfig on the machine that runs the task, instead of O(scheduler_url). Neither
        C(KUBECONFIG) nor C(~/.kube/config) is taken, and no plugin that the file names is run for the login.
      - Taken from the host variable C(gpufleet_scheduler_conf).
    type: path
  scheduler_context:
    description:
      - The context of the kubeconfig. Needed where it has more than one; its C(current-context) is not taken.
      - Taken from the host variable C(gpufleet_scheduler_context).
    type: str
  scheduler_url:
    description:
      - Address of the API server of Kubernetes, instead of a kubeconfig. With neither, in a pod, that of the pod's own
        service account.
      - Taken from the host variable C(gpufleet_scheduler_url).
    type: str
  scheduler_token:
    description:
      - Bearer token for the API server; a lookup, never inventory text.
      - Taken from the host variable C(gpufleet_scheduler_token).
    type: str
  scheduler_token_path:
    description:
      - Path of a file with that token on the machine that runs the task. It is read again where the API server no
        longer takes what stood there, so that a short-lived token may be written anew at any time.
      - Taken from the host variable C(gpufleet_scheduler_token_path).
    type: path
  scheduler_ca_path:
    description:
      - File or folder of the authorities that vouch for the API server; those of the kubeconfig, else of the system,
        without it.
      - Taken from the host variable C(gpufleet_scheduler_ca_path).
    type: path
  scheduler_taints:
    description:
      - Taints that the nodes of Kubernetes carry for good, and that are nobody's hold, each as C(key), C(key=value),
        C(key:effect) or C(key=value:effect). C(nvidia.com/gpu) and C(amd.com/gpu) without it.
      - Taken from the host variable C(gpufleet_scheduler_taints).
    type: list
    elements: str
  scheduler_evict:
    description:
      - Which pods of Kubernetes may be asked to leave a held node, although something is lost with them.
      - V(bare) for a pod that nothing starts again, V(local_data) for one with an C(emptyDir) on the node's disk,
        V(gang) for one of a gang (Kueue, Volcano, JobSet and others), all of which end with it.
      - Without them such a node is not drained for V(bare) and V(local_data), and the end of a gang is waited for.
      - Taken from the host variable C(gpufleet_scheduler_evict).
    type: list
    elements: str
  scheduler_ready:
    description:
      - What a node of Kubernetes shows before it is given work, each as C(RESOURCE=COUNT) that pods can have, such as
        C(nvidia.com/gpu=8), or as C(LABEL=VALUE).
      - Taken from the host variable C(gpufleet_scheduler_ready).
    type: list
    elements: str
"""
