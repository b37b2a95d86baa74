# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``keystone_process.py CONFIG PORT URL USER PROJECT``: a real Keystone in one process, with its admin's password on
standard input. Run by the Python that has one, not by that of the tests.

It does what ``keystone-manage db_sync``, ``fernet_setup`` and ``bootstrap`` do, by their own functions, and then what a
web server does with Keystone's application: of these four programs each would load Keystone anew.
"""

from __future__ import annotations

import multiprocessing
import sys

import keystone.server
from cheroot import wsgi
from keystone.cmd.bootstrap import Bootstrapper
from keystone.common.fernet_utils import FernetUtils
from keystone.common.sql import upgrades
from keystone.server.flask import core

#: Who asks are a few tests, and the Ironic behind them.
THREADS = 4


def prepare(config: str, url: str, user: str, password: str, project: str) -> None:
    """An empty Keystone with its own roles and one admin. In a process of its own: Keystone configures itself once."""
    keystone.server.configure(config_files=[config])
    upgrades.offline_sync_database_to_version(None)
    for name in ("fernet_tokens", "fernet_receipts"):
        kept = keystone.conf.CONF[name]
        keys = FernetUtils(kept.key_repository, kept.max_active_keys, name)
        keys.create_key_directory()
        keys.initialize_key_repository()
    first = Bootstrapper()
    first.admin_username, first.admin_password, first.admin_role_name = user, password, "admin"
    first.project_name, first.service_name, first.region_id, first.public_url = project, "keystone", "one", url
    first.bootstrap()


def main(config: str, port: str, *named: str) -> None:
    url, user, project = named
    first = multiprocessing.get_context("fork").Process(
        target=prepare, args=(config, url, user, sys.stdin.readline().strip(), project)
    )
    first.start()
    first.join()
    if first.exitcode:
        sys.exit(first.exitcode)
    wsgi.Server(("127.0.0.1", int(port)), core.initialize_application("public", config_files=[config]), THREADS).start()


if __name__ == "__main__":
    # Keystone takes what stands on the command line for options of its own.
    arguments, sys.argv[1:] = sys.argv[1:], []
    main(*arguments)
