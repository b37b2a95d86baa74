#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_log
short_description: What has happened to a machine, as its BMC wrote it down
version_added: "0.1.0"
description:
  - Reads the newest entries of a machine's system event log (SEL) through its BMC, by Redfish or by IPMI.
  - It logs in once, sends no write, and never clears a log.
  - Over Redfish each maker calls that log by another name, and some keep none, but another log with the events of the
    hardware. Which one was read stands in RV(log). A BMC that shows none is an error, and no empty log.
  - What a log of many entries costs is bounded, in requests, bytes and time. Where a bound was met, or a part could not
    be read, RV(unread) says so. Only where that is empty are RV(entries) all that were asked for.
author:
  - gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.bmc
  - gpufleet.baremetal.machine
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  most:
    description: How many entries are wanted at most, the newest ones, from 1 to 5000.
    type: int
    default: 200
  since:
    description:
      - Leave out what is known to have happened before this time, in seconds since the epoch, or as
        V(2026-11-28T09:00:00Z) or V(2026-11-28T10:00:00+01:00).
      - Times are the BMC's own, whose clock may be wrong; RV(bmc_ahead) tells by how much it is today. Entries without
        a time are not left out.
    type: str
  timeout:
    description: Seconds for the whole task. Over IPMI each entry takes a request.
    type: float
    default: 120
seealso:
  - module: gpufleet.baremetal.bmc_info
  - module: gpufleet.baremetal.kernel_log_gate
"""

EXAMPLES = r"""
- name: What has this machine's BMC seen since yesterday
  gpufleet.baremetal.bmc_log:
    since: "{{ now().timestamp() - 86400 }}"
  register: events

- name: Nothing that it calls critical, and nothing that it could not tell
  ansible.builtin.assert:
    that:
      - events.unread == []
      - events.entries | selectattr('severity', 'in', ['critical', 'unknown']) | list == []
"""

RETURN = r"""
address:
  description: The BMC that was asked.
  returned: always
  type: str
  sample: https://10.1.2.3
machine:
  description:
    - The machine held against O(serial), O(system_uuid) and O(boot_mac), as M(gpufleet.baremetal.bmc_info) tells it.
      Where C(contradicts) is not empty, this is another machine's log.
  returned: always
  type: dict
  sample: {serial: ABC1234, agrees: [serial], contradicts: [], lacks: [], unproven: []}
log:
  description:
    - Which log it is. C(kind) is V(sel), or V(platform) for another one with the events of the hardware, where the BMC
      shows no SEL (the IML of HPE, the PlatformLog of Lenovo, the EventLog of OpenBMC).
    - C(shared) is whether events of other machines behind the same BMC may stand in it, null where the BMC does not
      say. C(others) are the logs beside it, which were not read.
  returned: always
  type: dict
  sample:
    id: Sel
    kind: sel
    name: SEL Log Service
    uri: /redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel
    shared: false
    others: [/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Lclog]
entries:
  description: The newest entries, the newest first.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: The entry's id in its log.
      type: str
      returned: always
      sample: "1024"
    at:
      description:
        - When it happened, by the BMC's clock, in UTC. Null where no time is told, and where it is one of a clock that
          was never set, such as 1970. An IPMI time is taken for UTC.
      type: str
      returned: always
      sample: "2026-11-28T09:14:03Z"
    severity:
      description:
        - V(ok), V(warning), V(critical), or V(unknown) where the BMC does not say. IPMI has no word for it. There it
          follows from the kind of event, and is V(unknown) for a maker's own.
      type: str
      returned: always
      sample: critical
    message:
      description: What happened, in the BMC's words, over IPMI in ours; at most 1000 characters.
      type: str
      returned: always
      sample: "Memory #12: uncorrectable ECC"
    sensor:
      description: Kind and number of the sensor, else the resource that it is about; empty where neither is told.
      type: str
      returned: always
      sample: "Memory #12"
    code:
      description: The id of the message; over IPMI the kind of event and its data, in hexadecimal digits.
      type: str
      returned: always
      sample: 6fa1ffff
    native:
      description:
        - What the BMC itself said, where it stands above in other words. C(at) is its time. Over Redfish C(severity),
          C(entry_code), which tells whether an event began (C(Assert)) or ended, and C(uri); over IPMI C(record), the
          bytes of the record.
      type: dict
      returned: always
      sample: {at: "0x6b0a9b5b", record: 1000025b9b0a6b2000040c0c6fa1ffff}
total:
  description: How many entries the log has, as the BMC says; null where it does not say, or has shown more.
  returned: always
  type: int
  sample: 512
unread:
  description:
    - What is missing, and why, such as a page that did not come, a bound that was met, or a log that is full and takes
      no new entries. Where this is not empty, that something does not stand in RV(entries) shows nothing.
  returned: always
  type: list
  elements: str
  sample: []
bmc_time:
  description: The BMC's clock when it was asked, in UTC; null where it does not tell, or was never set.
  returned: always
  type: str
  sample: "2026-11-28T09:15:00Z"
bmc_time_said:
  description: The same as the BMC said it; empty where it did not.
  returned: always
  type: str
  sample: "2026-11-28T10:15:00+01:00"
bmc_ahead:
  description:
    - By how many seconds the BMC's clock is ahead of that of the machine that asked, below zero where it is behind, and
      as exact as the BMC's answer was quick. Null where RV(bmc_time) is.
  returned: always
  type: float
  sample: -2.5
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import LOG_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

ARGUMENT_SPEC = LOG_SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff, node=str(module.params.get("bmc_address") or ""))
    try:
        result = log(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result(), warnings=ctx.warnings)
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
