# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a BMC is reached."""

    DOCUMENTATION = r"""
options:
  bmc_protocol:
    description:
      - How to talk to the BMC. Taken from the host variable C(gpufleet_bmc_protocol), else V(redfish).
    type: str
    choices: [redfish, ipmi]
  bmc_address:
    description:
      - The BMC's address. For Redfish a URL (V(https://10.1.2.3)) or a host name with an optional port; for IPMI a
        host name with an optional port.
      - An address of IPv6 is taken bare, or in brackets, which a port behind it needs, as in V([fd00::7]:8443).
      - Taken from the host variable C(gpufleet_bmc_address).
    type: str
  bmc_system_id:
    description:
      - The Redfish system, by its C(Id) or its URI, where the BMC has several hosts.
      - Taken from the host variable C(gpufleet_bmc_system_id).
    type: str
  bmc_username:
    description: The BMC's user. Taken from the host variable C(gpufleet_bmc_username).
    type: str
  bmc_password:
    description:
      - The password of that user. Taken from the host variable C(gpufleet_bmc_password), where it should be a lookup.
      - It is tried once. A refusal is an error at once, so that no account is locked out.
    type: str
  bmc_ca_path:
    description:
      - File of the certificate authorities that vouch for the BMC, in PEM form; the system's own without it.
      - Taken from the host variable C(gpufleet_bmc_ca_path).
    type: path
  bmc_verify_tls:
    description:
      - V(false) accepts any certificate. Taken from the host variable C(gpufleet_bmc_verify_tls), else V(true).
    type: bool
  bmc_tls_fingerprint:
    description:
      - The SHA-256 fingerprint of the one certificate that the BMC may show, in hexadecimal digits with or without
        colons. It is looked at before anything is sent. No authority need vouch for it then, but one that
        O(bmc_ca_path) names is asked all the same. An address that begins with C(http://) is an error then.
      - V(first) demands the certificate that the ledger has for this node. Where it has none yet,
        M(gpufleet.baremetal.bmc_info) takes the one that it sees and fixes it there, and the other modules refuse. It
        fixes none, and fails, where the BMC tells another serial or system UUID than C(gpufleet_serial) and
        C(gpufleet_system_uuid), or neither of them. Where the inventory names no serial, the one that the ledger has
        for the node counts.
      - Of a node that the inventory knows by its BMC alone, the certificate is fixed under the serial that the BMC
        tells. Which one is demanded is known only after the login then, so name the serial as soon as it is known.
        What the BMC tells fixes none for the node of another host, and replaces none.
      - Another certificate is an error that names both. M(gpufleet.baremetal.bmc_info) with the new fingerprint fixes
        that one from then on.
      - Taken from the host variable C(gpufleet_bmc_tls_fingerprint).
    type: str
  bmc_auth:
    description:
      - How to log in over Redfish. V(basic) sends the login with each request. V(session) logs in once a task and logs
        out at its end, also where the task fails or is ended by Ctrl-C or TERM. A session that may be left there, since
        the BMC did not take the logout, is told as a warning. That one the BMC itself ends, and that of a process which
        is killed, or ended while it logs in. It takes one of the few sessions that a BMC has, and is for those that
        refuse the other way.
      - Taken from the host variable C(gpufleet_bmc_auth), else V(basic).
    type: str
    choices: [basic, session]
  bmc_ipmi_privilege:
    description:
      - The privilege level to log in with over IPMI. Without it the highest that the user has is asked for.
      - Taken from the host variable C(gpufleet_bmc_ipmi_privilege).
    type: str
    choices: [operator, administrator]
  bmc_ipmi_kg:
    description:
      - The BMC's own key for IPMI (Kg), where it has one, as text or as V(0x) and hexadecimal digits; at most 20 bytes.
      - Taken from the host variable C(gpufleet_bmc_ipmi_kg), where it should be a lookup.
    type: str
"""
