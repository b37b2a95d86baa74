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
  scheduler_login_host:
    description:
      - For Slurm a host of the inventory on which Slurm's commands are run, by the connection that a task of that
        host's own would have, for a controller without them. O(scheduler_conf) is a path there then. With
        O(scheduler_url), the host on which C(scontrol token) is run where no token is given.
      - A task that uses it cannot be delegated.
      - Taken from the host variable C(gpufleet_scheduler_login_host).
    type: str
  scheduler_context:
    description:
      - The context of the kubeconfig. Needed where it has more than one; its C(current-context) is not taken.
      - Taken from the host variable C(gpufleet_scheduler_context).
    type: str
  scheduler_url:
    description:
      - For Slurm the address of C(slurmrestd), which is then asked instead of the commands. It changes nodes from Slurm
        23.02 on.
      - For Kubernetes the address of the API server, instead of a kubeconfig. With neither, in a pod, that of the pod's
        own service account.
      - Taken from the host variable C(gpufleet_scheduler_url).
    type: str
  scheduler_token:
    description:
      - Token for C(slurmrestd) (a JSON Web Token, as C(scontrol token) makes it) or for the API server; a lookup, never
        inventory text.
      - For Slurm, with neither this nor O(scheduler_token_path), C(scontrol token) of the machine that runs the task is
        asked for one.
      - Taken from the host variable C(gpufleet_scheduler_token).
    type: str
  scheduler_token_path:
    description:
      - Path of a file with that token on the machine that runs the task. It is read again where what stood there is
        about to end or is no longer taken, so that a short-lived token may be written anew at any time.
      - Taken from the host variable C(gpufleet_scheduler_token_path).
    type: path
  scheduler_ca_path:
    description:
      - File or folder of the authorities that vouch for C(slurmrestd) or the API server; those of the kubeconfig, else
        of the system, without it.
      - Taken from the host variable C(gpufleet_scheduler_ca_path).
    type: path
  scheduler_user:
    description:
      - The user that C(slurmrestd) is asked as; the one that the token names without it.
      - Taken from the host variable C(gpufleet_scheduler_user).
    type: str
  scheduler_slurm_user:
    description:
      - The C(SlurmUser) of C(slurm.conf), which C(slurmrestd) does not tell; V(slurm) without it. What slurmctld wrote
        by itself is known by it.
      - Taken from the host variable C(gpufleet_scheduler_slurm_user).
    type: str
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
