# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who this machine is, read on the machine itself, and whether it is built as its profile says.

PRIVATE to the collection. Runs on the node with the standard library alone. Facts: DMI as the kernel shows it, and
``nvidia-smi`` for the GPUs; one lost GPU makes ``nvidia-smi`` fail for all of them, which is inconclusive here and
never zero GPUs.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result

SPEC = spec(
    FLEET,
    serial={"type": "str"},
    system_uuid={"type": "str"},
    profile={"type": "dict"},
    profile_path={"type": "list", "elements": "path"},
    sku={"type": "str"},
    dmi_path={"type": "path", "default": "/sys/class/dmi/id"},
    nvidia_smi={"type": "path", "default": "nvidia-smi"},
    timeout={"type": "int", "default": 60},
    fail_on={"type": "str", "choices": ["fail", "inconclusive", "never"], "default": "inconclusive"},
)

_DMI = {
    "serial": "product_serial",
    "system_uuid": "product_uuid",
    "manufacturer": "sys_vendor",
    "model": "product_name",
}
_ORDER = {"pass": 0, "inconclusive": 1, "fail": 2}
_FAILS_FROM = {"inconclusive": 1, "fail": 2, "never": 3}


def read_identity(params: Mapping[str, Any]) -> dict[str, Any]:
    """serial, system_uuid, manufacturer, model, kernel, boot_id, uptime, gpus and gpu_problem.

    gpus: list of uuid, name, memory_mib, pci; an empty gpu_problem says that this list can be trusted.
    """
    identity: dict[str, Any] = {key: _line(os.path.join(params["dmi_path"], name)) for key, name in _DMI.items()}
    identity["system_uuid"] = identity["system_uuid"].lower()
    identity["kernel"] = os.uname().release
    identity["boot_id"] = _line("/proc/sys/kernel/random/boot_id")
    identity["uptime"] = float((_line("/proc/uptime") or "0").split()[0])
    identity["clock"] = time.time()
    identity["gpus"], identity["gpu_problem"] = _gpus(params["nvidia_smi"], params["timeout"])
    return identity


def identify(params: Mapping[str, Any], ctx: Context) -> Result:
    """Read the identity and hold it against what the BMC said and what the profile wants."""
    started = _utc()
    identity = read_identity(params)
    checks = [
        _same("serial", identity["serial"], params.get("serial")),
        _same("system_uuid", identity["system_uuid"], (params.get("system_uuid") or "").lower()),
        *_profile_checks(identity, params),
    ]
    checks = [check for check in checks if check]
    verdict = max((check["verdict"] for check in checks), key=_ORDER.__getitem__, default="inconclusive")
    findings = [
        {"id": f"identity_{check['id']}", "entity": check["entity"], "text": _sentence(check), "remedy": _remedy(check)}
        for check in checks
        if check["verdict"] != "pass"
    ]
    outcome = {
        "schema": 1,
        "gate": "node_identity",
        "verdict": verdict,
        "checks": checks,
        "findings": findings,
        "tool": {"name": "node_identity", "version": "1"},
        "argv": [],
        "started": started,
        "ended": _utc(),
    }
    data = {**outcome, "identity": identity, "remedy": findings[0]["remedy"] if findings else "none"}
    if _ORDER[verdict] >= _FAILS_FROM[params["fail_on"]]:
        data.update(failed=True, msg="; ".join(finding["text"] for finding in findings))
    return Result(
        changed=False,
        data=data,
        events=[Event("verdict", "node_identity", outcome)],
    )


def _line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return ""


def _gpus(tool: str, timeout: int) -> tuple[list[dict[str, Any]], str]:
    argv = [tool, "--query-gpu=uuid,name,memory.total,pci.bus_id", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError:
        return [], f"{tool} is not installed"
    except (OSError, subprocess.TimeoutExpired) as exc:
        return [], f"{tool}: {exc}"
    text = answer.stdout.decode("utf-8", "replace")
    if answer.returncode != 0:
        return [], f"{tool} ended with {answer.returncode}: {text.strip()[:200]}"
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 4 or not fields[0].startswith("GPU-") or not fields[2].isdigit():
            return [], f"{tool} printed a line that is no GPU: {line[:120]}"
        gpus.append({"uuid": fields[0], "name": fields[1], "memory_mib": int(fields[2]), "pci": fields[3].lower()})
    return gpus, "" if len({gpu["uuid"] for gpu in gpus}) == len(gpus) else f"{tool} printed a GPU twice"


def _check(name: str, measured: Any, wanted: Any, verdict: str, source: str, unit: str = "") -> dict[str, Any]:
    return {
        "id": name,
        "entity": "node",
        "measured": measured,
        "wanted": wanted,
        "unit": unit,
        "source": source,
        "verdict": verdict,
    }


def _same(name: str, measured: str, wanted: str | None) -> dict[str, Any]:
    """The node must say what its BMC says; a node that says nothing proves nothing."""
    if not wanted:
        return {}
    verdict = "inconclusive" if not measured else "pass" if measured == wanted else "fail"
    return _check(name, measured or "not readable", wanted, verdict, "the BMC")


def _profile_checks(identity: Mapping[str, Any], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    profile = params.get("profile")
    if not profile:
        wanted = f"a profile for the SKU {params.get('sku') or '(none given)'}"
        return [_check("sku", "no profile", wanted, "inconclusive", "the profile search path")]
    gpus = identity["gpus"]
    wanted_count = profile["gpu_count"]["value"]
    source = profile["gpu_count"]["source"]
    if identity["gpu_problem"]:
        return [_check("gpu_count", identity["gpu_problem"], wanted_count, "inconclusive", source)]
    checks = [
        _check("gpu_count", len(gpus), wanted_count, "pass" if len(gpus) == wanted_count else "fail", source)
    ]
    memory = profile.get("gpu_memory_mib")
    if memory:
        least = min((gpu["memory_mib"] for gpu in gpus), default=0)
        enough = least >= memory["value"]
        checks.append(
            _check("gpu_memory", least, memory["value"], "pass" if enough else "fail", memory["source"], "MiB")
        )
    return checks


def _sentence(check: Mapping[str, Any]) -> str:
    return f"{check['id']}: measured {check['measured']}, wanted {check['wanted']} ({check['source']})"


def _remedy(check: Mapping[str, Any]) -> str:
    return {"gpu_count": "power_cycle", "gpu_memory": "field_diag", "sku": "remediate_config"}.get(
        check["id"], "remediate_config"
    )


def _utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
