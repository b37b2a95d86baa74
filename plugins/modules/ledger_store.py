#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_store
short_description: Verify, back up, restore, move or archive a ledger as a whole
version_added: "0.1.0"
description:
  - A ledger is what decides which machines are written to. This module looks after the database that it lies in, in a
    file of SQLite or in PostgreSQL, while runs work with it or, where that must not be, only while none does.
  - What was done to a ledger as a whole is on record in it.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
notes:
  - It works through its action on the controller alone, which has the ledger. The module by itself fails and says so.
  - It works on one ledger, that of the host whose task it is. Call it with C(run_once).
options:
  state:
    description:
      - V(verified) reads all of it, and fails where the file is damaged, a row cannot be read or is of no node, events
        were taken out, a passport is not what was signed, or the database does not refuse changes any more;
        and where it is no ledger at all.
      - V(backed_up) writes all of it, as it is at one moment, into the new file O(path). Runs go on meanwhile.
      - V(restored) makes the backup O(path) the ledger again. Refused where there is a ledger with nodes in it, unless
        O(force_reason) is given; that one is kept beside. In PostgreSQL it is restored into an empty database alone.
        An archive is no backup, nor is a ledger without nodes. A ledger that does not answer is not replaced, since a
        run may work with it.
      - V(moved) copies a ledger out of a file into the empty database O(to), compares the two row by row, and marks the
        file, which no run reads or writes from then on.
      - V(archived) takes old looks at nodes out of the ledger, and puts them into the file O(path), which is made or
        continued. Nothing that any decision asks for is taken.
    type: str
    choices: [verified, backed_up, restored, moved, archived]
    default: verified
  path:
    description: The backup or the archive, a file on the controller with mode 0600.
    type: path
  to:
    description:
      - The new ledger's URL, with V(moved), for instance V(postgresql+psycopg://gpufleet@db.example.com/gpufleet).
    type: str
  older_than:
    description: With V(archived), the age in days from which on a look is old; 7 or more.
    type: int
    default: 90
  passport_public_keys:
    description:
      - Files of the public keys, or the keys themselves, one of which the newest passport of each node must be signed
        by until it ends. Taken from the host variable C(gpufleet_passport_public_keys). Older ones, and all without any
        key, are held against their digests.
      - With V(restored) a passport of a key that is not known is told, and refuses nothing.
    type: list
    elements: str
  ledger_url:
    description:
      - Which ledger, as an SQLAlchemy URL; taken from the host variable C(gpufleet_ledger_url), then from the
        environment variable E(GPUFLEET_LEDGER_URL), then V(/var/lib/gpufleet/ledger.sqlite).
    type: str
  force_reason:
    description: Why a ledger is replaced that has nodes in it, with V(restored). It is recorded.
    type: str
  node_id:
    description: Not used; every module with a ledger takes it.
    type: str
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Back the ledger up
  gpufleet.baremetal.ledger_store:
    state: backed_up
    path: "/var/backups/gpufleet-{{ now(fmt='%Y%m%dT%H%M%S') }}.sqlite"
  run_once: true

- name: Prove that it is whole
  gpufleet.baremetal.ledger_store:
    state: verified
  run_once: true

- name: Put a backup back
  gpufleet.baremetal.ledger_store:
    state: restored
    path: /var/backups/gpufleet-20261123T020000.sqlite
    force_reason: the disk of the controller was damaged, ticket 4711
  run_once: true

- name: Move it to PostgreSQL
  gpufleet.baremetal.ledger_store:
    state: moved
    to: postgresql+psycopg://gpufleet@db.example.com/gpufleet
  run_once: true

- name: Put looks that are older than half a year aside
  gpufleet.baremetal.ledger_store:
    state: archived
    older_than: 180
    path: /var/backups/gpufleet-archive.sqlite
  run_once: true
"""

RETURN = r"""
address:
  description: Where the ledger lies, without a password.
  returned: success
  type: str
  sample: sqlite:////var/lib/gpufleet/ledger.sqlite
rows:
  description: How many rows it has, by table; of V(archived), how many are taken out, or would be in check mode.
  returned: success
  type: dict
  sample: {nodes: 200, events: 41210, passports: 611}
path:
  description: The backup or the archive.
  returned: with O(path)
  type: str
  sample: /var/backups/gpufleet-20261123T020000.sqlite
to:
  description: Where it lies now, without a password.
  returned: where it was moved
  type: str
  sample: postgresql+psycopg://gpufleet@db.example.com/gpufleet
set_aside:
  description: Where the ledger lies that was replaced, or the journal that was left of one; empty where none was.
  returned: where a backup was restored
  type: str
  sample: /var/lib/gpufleet/ledger.sqlite.before-1c0ffee5
findings:
  description: What is wrong with it, in words; empty, or the task fails.
  returned: where it was verified
  type: list
  elements: str
  sample: []
archive:
  description: Whether it is an archive of old looks, which is no backup.
  returned: where it was verified
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.upkeep import RULES, SPEC, ledger_store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, **RULES)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = ledger_store(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
