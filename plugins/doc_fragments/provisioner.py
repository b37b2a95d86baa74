# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a provisioner is reached."""

    DOCUMENTATION = r"""
options:
  provisioner:
    description: The provisioner that manages the node. Taken from the host variable C(gpufleet_provisioner).
    type: str
    choices: [bcm, ironic, maas, pxe, warewulf, xcat]
  provisioner_url:
    description:
      - Its API, for instance V(https://ironic.example.com:6385), V(https://maas.example.com:5443/MAAS) or
        V(https://warewulf.example.com:9874); for xCAT the folder of its commands on the machine that runs the task, or
        on O(provisioner_login_host), V(/opt/xcat), or its web service, V(https://mn.example.com/xcatws); for BCM the
        path of its cmsh there, V(/cm/local/apps/cmd/bin/cmsh); with C(pxe) the command that the role C(netboot)
        installs there, V(/usr/local/bin/gpufleet-netboot).
      - For Warewulf and xCAT's web service it is C(https), unless it is one of this machine itself.
      - Taken from the host variable C(gpufleet_provisioner_url).
    type: str
  provisioner_username:
    description:
      - User of an Ironic with HTTP Basic, of Warewulf, or of xCAT's web service.
      - Taken from the host variable C(gpufleet_provisioner_username).
    type: str
  provisioner_password:
    description: Password of that user. Taken from the host variable C(gpufleet_provisioner_password).
    type: str
  provisioner_api_key:
    description:
      - The MAAS API key, C(consumer:token:secret). Taken from the host variable C(gpufleet_provisioner_api_key).
    type: str
  provisioner_ca_path:
    description:
      - File of certificate authorities for its TLS. Taken from the host variable C(gpufleet_provisioner_ca_path).
    type: path
  provisioner_cloud:
    description:
      - Name of a cloud in C(clouds.yaml), for an Ironic behind Keystone; replaces the URL, the user, the password
        and the file of authorities, which that file has as C(cacert).
      - Taken from the host variable C(gpufleet_provisioner_cloud).
    type: str
  provisioner_login_host:
    description:
      - For xCAT's commands, BCM and C(pxe) a host of the inventory on which the provisioner's commands are run, by the
        connection that a task of that host's own would have, for a controller that is not the provisioner's own
        machine. O(provisioner_url) is a path there then.
      - A task that uses it cannot be delegated.
      - Taken from the host variable C(gpufleet_provisioner_login_host).
    type: str
"""
