# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option ``each`` of a task for all hosts: what every host says for itself. PRIVATE to the collection.

An option by the name of a variable, or by the way to what a registered result has. No template: what a machine or a
service said stands in there, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FOR_ALL
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: A variable, and what is in it; a star is the host's own name, as in the verdicts of another task for all.
_PATH = re.compile(r"[A-Za-z_]\w*(\.([\w-]+|\*))*\Z")


def demand_paths(each: Mapping[str, Any], given: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """:raises ConfigError: naming the first option that is none, is said twice, or for which no variable is named."""
    for option, path in each.items():
        if option not in spec or option in FOR_ALL:
            problem = f"each says {option}, which is no option of a host's own task"
        elif given.get(option) is not None:
            problem = f"{option} is said of all, and by each"
        elif not isinstance(path, str) or not _PATH.match(path):
            problem = f"each says no name of a variable for {option}"
        else:
            continue
        raise ConfigError(
            problem,
            wanted="an option of the task, and the name of a variable of each host, such as image: deploy_image or"
            " provisioner_id: enrolled.verdicts.*.result.provisioner_id",
            seen=f"{option}: {path}",
            do="correct each; a template stands for the host that runs the task alone",
        )


def said(each: Mapping[str, str], variable: Callable[[str], Any], host: str) -> dict[str, Any]:
    """The options of one host. One whose variable is null is left out, as in its own task.

    :param variable: reads a variable of that host; None where it is not set.
    :raises ConfigError: where nothing is there: a misspelt name must not look like an option that was left out.
    """
    found = {option: _at(path, variable, host, option) for option, path in each.items()}
    return {option: value for option, value in found.items() if value is not None}


def _at(path: str, variable: Callable[[str], Any], host: str, option: str) -> Any:
    name, *keys = path.split(".")
    value = variable(name)
    reached = [name]
    if value is None and not keys:
        raise _nothing(option, path, host, name)
    for key in keys:
        own = host if key == "*" else key
        if isinstance(value, (list, tuple)) and own.isdigit() and int(own) < len(value):
            value = value[int(own)]
        elif isinstance(value, Mapping) and own in value:
            value = value[own]
        else:
            raise _nothing(option, path, host, ".".join(reached))
        reached.append(own)
    return value


def _nothing(option: str, path: str, host: str, reached: str) -> ConfigError:
    return ConfigError(
        f"nothing says its {option}",
        node=host,
        wanted=f"{path} of this host",
        seen=f"{reached} is not there, or has nothing of that name",
        do=f"set it, or correct {option} in each",
    )
