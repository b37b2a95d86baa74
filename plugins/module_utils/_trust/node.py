# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the image that a node runs against what was signed. PRIVATE to the collection.

Runs on the node with the standard library alone. The manifest file proves which image was unpacked, since its digest
stands in the signed SHA256SUMS; kernel, driver, CUDA and Fabric Manager prove that this image is also what runs.
"""

from __future__ import annotations

import calendar
import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import deployed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import Cell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import node_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.manifest import read_manifest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

_MANIFEST_LIMIT = 1024 * 1024
_VERSION = r"(\d+(?:\.\d+)+)"
#: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat ...", and with "Open Kernel Module for x86_64".
_NVRM = re.compile(r"NVRM version:.*?\s" + _VERSION + r"(?:\s|$)")
#: The header of nvidia-smi's table.
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*" + _VERSION)
_FABRIC = re.compile(r"Fabric Manager version is\s*:\s*" + _VERSION, re.I)
_MAJOR_MINOR = re.compile(r"\d+\.\d+")
_SMI_VERSION = re.compile(_VERSION)
#: Ends of a tool that are none of its own.
_NO_END: Mapping[str, str] = {
    "missing": "is not installed on the node",
    "denied": "cannot be run: {why}",
    "timeout": "did not end within {seconds:g} s",
    "flood": "printed without an end",
}
#: Boot times are computed from whole and hundredth seconds read one after the other.
BOOT_GRAIN = 1.0


def judge_node(params: Mapping[str, Any]) -> tuple[Judgement, dict[str, Any]]:
    """Judge this machine. Returns the verdict so far and who this machine is."""
    expect = params.get("expect") or {}
    manifest = expect.get("manifest")
    if not manifest or not expect.get("manifest_sha256"):
        raise ConfigError(
            "nothing says what this node must run",
            wanted="the expectations that the controller verified, in the option expect",
            do="call image_verify through its action (a task without delegation); it verifies the signature first",
        )
    judgement = Judgement("image_verify")
    cells = required(expect, params)
    judgement.require(*cells)
    read = _Reader(params, judgement)
    _image(judgement, read, expect, cells)
    for name, find, _source in _FINDERS:
        asked = cells.get((name, "node"))
        if asked:
            _version(judgement, name, partial(find, read), asked)
    _boot(judgement, read, params, cells)
    _deployment(judgement, params, expect, cells)
    identity = node_identity(params, read.run)
    judgement.evidence["identity"] = identity
    return judgement, identity


class _Reader:
    """Reads files and runs tools of this machine, and keeps what came out as evidence."""

    def __init__(self, params: Mapping[str, Any], judgement: Judgement) -> None:
        self.params = params
        self._judgement = judgement

    def file(self, path: str) -> bytes:
        with open(path, "rb") as source:
            content = source.read(_MANIFEST_LIMIT + 1)
        if len(content) > _MANIFEST_LIMIT:
            raise BadAnswer(f"{path} is larger than {_MANIFEST_LIMIT} bytes")
        self._judgement.evidence[path] = hashlib.sha256(content).hexdigest()
        return content

    def text(self, path: str) -> str:
        """A file's text; empty where it cannot be read."""
        try:
            return self.file(path).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def run(self, argv: Sequence[str]) -> str:
        """A tool's output.

        :raises BadAnswer: where it is missing, hangs, or ends with an error.
        """
        self._judgement.argv = [*self._judgement.argv, " ".join(argv)]
        text = run_tool(argv, float(self.params["timeout"]))
        self._judgement.evidence[" ".join(argv)] = text
        return text


def run_tool(argv: Sequence[str], timeout: float) -> str:
    """Output of a tool.

    :raises BadAnswer: where it is missing, hangs, or ends with an error.
    """
    done = run(argv, timeout=timeout)
    if done.ended != "exit" or done.rc is None:
        words = _NO_END.get(done.ended, f"ended as {done.ended}")
        raise BadAnswer(f"{argv[0]} {words.format(seconds=timeout, why=cut(done.stderr, 120))}")
    if done.rc != 0:
        told = (done.text + done.cries).strip()
        raise BadAnswer(f"{argv[0]} ended with {done.rc}: {cut(told, 200)}")
    return done.text


def _kernel(read: _Reader) -> str:
    return os.uname().release


def _driver(read: _Reader) -> str:
    """The loaded kernel module's version and that of the user space, which must be one."""
    loaded = ""
    text = read.text(read.params["driver_version_path"])
    if text:
        match = _NVRM.search(text)
        if match is None:
            raise BadAnswer(f"{read.params['driver_version_path']} cannot be read", seen=cut(text, 120))
        loaded = match.group(1)
    lines = read.run([read.params["nvidia_smi"], "--query-gpu=driver_version", "--format=csv,noheader"]).split("\n")
    found = {line.strip() for line in lines if line.strip()}
    if len(found) != 1 or not all(_SMI_VERSION.fullmatch(line) for line in found):
        raise BadAnswer(
            "nvidia-smi does not name one driver version", seen=cut(", ".join(sorted(found)), 120) or "nothing"
        )
    answered = found.pop()
    if loaded and loaded != answered:
        return f"{loaded} loaded, {answered} in user space"
    return answered


def _cuda(read: _Reader) -> str:
    match = _CUDA.search(read.run([read.params["nvidia_smi"]]))
    if match is None:
        raise BadAnswer("nvidia-smi names no CUDA version")
    return match.group(1)


def _fabric_manager(read: _Reader) -> str:
    match = _FABRIC.search(read.run([read.params["fabric_manager"], "--version"]))
    if match is None:
        raise BadAnswer("nv-fabricmanager names no version")
    return match.group(1)


#: What is held against the manifest by its version.
_FINDERS: tuple[tuple[str, Callable[[_Reader], str], str], ...] = (
    ("kernel", _kernel, "uname"),
    ("driver", _driver, "kernel module and nvidia-smi"),
    ("cuda", _cuda, "nvidia-smi"),
    ("fabric_manager", _fabric_manager, "nv-fabricmanager --version"),
)


@dataclass(frozen=True)
class Asked:
    """What a cell is asked for. ``right``: is it what was measured? The rest is how a verdict shows it."""

    right: Callable[[Any], bool]
    wanted: Any
    source: str

    @property
    def line(self) -> dict[str, Any]:
        return {"wanted": self.wanted, "source": self.source}


Cells = Mapping[Cell, Asked]


def _image(judgement: Judgement, read: _Reader, expect: Mapping[str, Any], cells: Cells) -> None:
    path = str(read.params["manifest_path"])
    line = {"entity": path, **cells[("image", path)].line}
    try:
        content = read.file(path)
    except (OSError, FleetError) as exc:
        told = exc.strerror if isinstance(exc, OSError) else str(exc)
        judgement.check(
            "image",
            measured=f"not readable: {told}",
            verdict=INCONCLUSIVE,
            finding="no_manifest",
            text=f"which image runs is unknown: {path}: {told}",
            **line,
        )
        return
    measured = hashlib.sha256(content).hexdigest()
    verdict = PASS if measured == expect["manifest_sha256"] else FAIL
    finding, text = _whose(content, expect)
    judgement.check("image", measured=measured, verdict=verdict, finding=finding, text=text, **line)


def _whose(content: bytes, expect: Mapping[str, Any]) -> tuple[str, str]:
    """Another image's manifest, or this one's altered: finding and text."""
    wanted = f"{expect['name']} {expect['version']}"
    try:
        found = read_manifest(content.decode("utf-8", "replace"))
    except FleetError:
        return "tampered_manifest", f"the node's manifest is not the signed one of {wanted}, and cannot be read"
    runs = f"{found['name']} {found['version']}"
    if runs != wanted:
        return "other_image", f"the node runs another image: {runs}, wanted {wanted}"
    return "tampered_manifest", f"the node's manifest calls itself {runs} and is not the signed one"


def _version(judgement: Judgement, name: str, find: Callable[[], str], asked: Asked) -> None:
    wanted = asked.wanted
    line = {"entity": "node", **asked.line}
    try:
        measured = find()
    except FleetError as exc:
        judgement.check(
            name,
            measured=str(exc),
            verdict=INCONCLUSIVE,
            finding=f"{name}_unknown",
            text=f"the running {name} is unknown: {exc}",
            **line,
        )
        return
    judgement.check(
        name,
        measured=measured,
        verdict=PASS if fits(name, measured, wanted) else FAIL,
        finding=f"wrong_{name}",
        text=f"wrong {name.replace('_', ' ')}: {measured} runs, the signed manifest says {wanted}",
        **line,
    )


def fits(name: str, measured: Any, wanted: str) -> bool:
    """Equal; for CUDA also the toolkit's 12.4.1 against the driver's 12.4, which is all that the driver tells."""
    if measured == wanted:
        return True
    told = isinstance(measured, str) and _MAJOR_MINOR.fullmatch(measured) is not None
    return name == "cuda" and told and wanted.startswith(f"{measured}.")


def seconds(text: str) -> float:
    """A point in time, as seconds since the epoch or as ISO 8601 in UTC.

    :raises ConfigError: where it is neither; a number that is none ("nan") would be later than nothing and for ever.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:?00)", text.strip())
    try:
        if match is None:
            raise ValueError
        whole = calendar.timegm(time.strptime(f"{match.group(1)} {match.group(2)}", "%Y-%m-%d %H:%M:%S"))
    except ValueError:  # also for a thirteenth month
        raise ConfigError(
            "a point in time cannot be read", wanted="2026-01-31T08:00:00Z, or seconds", seen=text
        ) from None
    return whole + float(match.group(3) or 0)


def required(expect: Mapping[str, Any], params: Mapping[str, Any]) -> dict[Cell, Asked]:
    """The cells of a whole answer, all of them and no other."""
    signed = f"SHA256SUMS signed by {expect.get('signer', '')}"
    digest = expect["manifest_sha256"]
    cells = {("image", str(params["manifest_path"])): Asked(lambda seen: bool(seen == digest), digest, signed)}
    for name, _find, source in _FINDERS:
        # A machine without NVSwitch has no Fabric Manager, and its signed manifest says so with an empty string.
        wanted = expect["manifest"].get(name)
        if wanted:
            cells[(name, "node")] = Asked(partial(fits, name, wanted=wanted), wanted, source)
    if expect.get(deployed.CHECK):
        asked = expect[deployed.CHECK]
        cells[(deployed.CHECK, "node")] = Asked(deployed.right(asked), asked["digest"], "the order to deploy")
    before = params.get("not_boot_id")
    if before:
        cells[("boot_id", "node")] = Asked(
            lambda seen: isinstance(seen, str) and bool(seen) and seen != before,
            f"not {before}",
            "the boot id before the deploy",
        )
    after = seconds(str(params.get("booted_after") or 0))
    if after > 0:
        # The two clocks may differ by what the check "clock" allows.
        earliest = after - float(params["max_clock_skew"]) - BOOT_GRAIN
        cells[("booted", "node")] = Asked(
            lambda seen: _number(seen) and seen > earliest, round(after, 3), "the deploy's own time"
        )
    return cells


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _boot(judgement: Judgement, read: _Reader, params: Mapping[str, Any], cells: Cells) -> None:
    """A node that was not booted since its deploy runs whatever it ran before."""
    if params.get("not_boot_id"):
        measured = read.text(params["boot_id_path"])
        verdict = INCONCLUSIVE if not measured else FAIL if measured == params["not_boot_id"] else PASS
        judgement.check(
            "boot_id",
            entity="node",
            measured=measured,
            verdict=verdict,
            finding="not_rebooted" if measured else "boot_id_unknown",
            text="the node was not booted since its deploy: its boot id is still the same"
            if measured
            else f"the boot id is unknown: {params['boot_id_path']} cannot be read",
            **cells[("boot_id", "node")].line,
        )
    booted = cells.get(("booted", "node"))
    if booted:
        _boot_time(judgement, read, params, booted)


def _deployment(judgement: Judgement, params: Mapping[str, Any], expect: Mapping[str, Any], cells: Cells) -> None:
    """Whose fault it is that a deployment did not arrive nobody knows here: the node's, its boot path's, the boot
    service's, or the image's, which may not take its id in."""
    asked = cells.get((deployed.CHECK, "node"))
    if asked is None:
        return
    seen = deployed.read(params, expect[deployed.CHECK])
    judgement.check(
        deployed.CHECK,
        entity="node",
        measured=seen,
        verdict=PASS if asked.right(seen) else INCONCLUSIVE,
        finding="deployment_unproven",
        text=f"nothing proves that this deployment reached the node: it shows {seen or 'none'}; look at its boot order"
        " and console, at the provisioner's boot service, and at whether the image takes a deployment's id in",
        **asked.line,
    )


def _boot_time(judgement: Judgement, read: _Reader, params: Mapping[str, Any], asked: Asked) -> None:
    after, line = seconds(str(params["booted_after"])), {"entity": "node", **asked.line}
    try:
        uptime = float(read.text(params["uptime_path"]).split()[0])
    except (IndexError, ValueError):
        judgement.check(
            "booted",
            measured="not readable",
            verdict=INCONCLUSIVE,
            finding="boot_time_unknown",
            text=f"when the node was booted is unknown: {params['uptime_path']} cannot be read",
            **line,
        )
        return
    booted = time.time() - uptime
    judgement.check(
        "booted",
        measured=round(booted, 3),
        verdict=PASS if booted > after - params["max_clock_skew"] - BOOT_GRAIN else FAIL,
        finding="not_rebooted",
        text=f"the node was booted {after - booted:.0f} s before its deploy: it still runs what it ran before",
        **line,
    )
