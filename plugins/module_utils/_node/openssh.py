# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenSSH would go by to reach a node, in its own words (``ssh -G``). PRIVATE to the collection."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

_SECONDS = 20.0
_DO = "correct ansible_ssh_args, ansible_ssh_common_args or ansible_ssh_extra_args, or ssh_args of ansible.cfg"


def settings(words: Sequence[str], address: str) -> dict[str, str]:
    """By these options, by the user's file of settings and by the machine's own. Nothing is connected to.

    :raises ConfigError: where it would not take them. :raises Unreachable: where it has not said so in time.
    """
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # the actions that ask have no module
            ["ssh", *words, "-G", "--", address],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace",
        )  # fmt: skip
    except OSError as exc:
        do = "install openssh-client on the machine that runs Ansible"
        raise ConfigError("the command ssh does not run", seen=str(exc), do=do) from exc
    except subprocess.TimeoutExpired as exc:
        raise Unreachable("OpenSSH did not say in time which way it would go", seen=f"{_SECONDS:.0f} s") from exc
    if done.returncode != 0:
        raise ConfigError("OpenSSH does not take its options", seen=short(done.stderr, 200), do=_DO)
    return {key: value for key, _blank, value in (line.partition(" ") for line in done.stdout.splitlines())}
