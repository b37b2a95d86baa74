# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes boot from this server, and what: a record a node, and what dnsmasq and the web server read of it.

    netboot --root DIR list [NAME...]            all nodes, or these, as JSON
    netboot --root DIR put NAME VERSION          its record, as JSON on stdin; VERSION 0 makes a new one
    netboot --root DIR boot NAME VERSION         what it boots, {"entry": TEXT, "note": {...}} on stdin
    netboot --root DIR unboot NAME VERSION       it boots nothing from here any more
    netboot --root DIR out NAME | in NAME        a person keeps it from booting from here, or no longer
    netboot --root DIR remove NAME               its record, and all that was made of it

One file a node, each replaced whole: whoever reads finds the old or the new one. A write says which version it was made
of, and is refused where somebody else has written since. Python's standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
ADDRESS = re.compile(r"[0-9a-fA-F.:]{2,45}\Z")
#: What a record has beside what its writer puts there.
OWN = ("version", "name", "note", "was", "at", "out")
#: Seconds for which a writer waits for its turn.
PATIENCE = 30
FOLDERS = ("nodes", "dhcp-hosts", "http/entries", "seen", "tftp")


class No(Exception):
    """kind: ``changed``, ``absent``, ``mac``, ``ordered``, ``broken``, ``busy``, ``refused``, ``denied`` or
    ``io``.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    # -- reading -----------------------------------------------------------------------------------------------

    def nodes(self, names: list[str]) -> dict[str, dict[str, Any]]:
        known = [path.stem for path in sorted((self.root / "nodes").iterdir()) if path.suffix == ".json"]
        found: dict[str, dict[str, Any]] = {}
        for name in (one for one in (names or known) if one in known):
            try:
                found[name] = self.shown(name)
            except No as exc:
                if exc.kind != "absent":  # one that was removed meanwhile
                    found[name] = {"name": name, "error": str(exc)}
        return found

    def shown(self, name: str) -> dict[str, Any]:
        """The record, the digest of what the node boots, and what it asked for last."""
        record = self.record(name)
        entry = self._text(self.entry(record["mac"]))
        seen = self._text(self.root / "seen" / f"{record['mac'].replace(':', '-')}.json")
        return {
            **record,
            "entry": hashlib.sha256(entry.encode()).hexdigest() if entry else "",
            "seen": _object(seen),
        }

    def record(self, name: str) -> dict[str, Any]:
        text = self._text(self.root / "nodes" / f"{name}.json") if NAME.match(name) else ""
        if not text:
            raise No("absent", f"no node {name}")
        found = _object(text)
        if not MAC.match(str(found.get("mac", ""))) or not isinstance(found.get("version"), int):
            raise No("broken", f"the file of {name} in nodes/ is no record")
        return found

    def entry(self, mac: str) -> Path:
        return self.root / "http" / "entries" / f"{mac.replace(':', '-')}.ipxe"

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    # -- writing -----------------------------------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Iterator[None]:
        with open(self.root / ".lock", "w", encoding="ascii") as lock:
            end = time.monotonic() + PATIENCE
            while not _locked(lock):
                if time.monotonic() > end:
                    raise No("busy", f"somebody else has been writing for {PATIENCE} seconds")
                time.sleep(0.05)
            yield

    def put(self, name: str, version: int, given: dict[str, Any]) -> None:
        if not NAME.match(name):
            raise No("refused", f"no name of a node: {name}")
        before = self._of_version(name, version)
        record = {
            **{key: before[key] for key in OWN if key in before},
            **{k: v for k, v in given.items() if k not in OWN},
        }
        mac, address = str(record.get("mac", "")), str(record.get("ip") or "")
        if not MAC.match(mac) or (address and not ADDRESS.match(address)):
            raise No("refused", f"no MAC, or no address: {mac} {address}".rstrip())
        other = next((one for one, its in self.nodes([]).items() if its.get("mac") == mac and one != name), "")
        if other:
            raise No("mac", f"its MAC belongs to {other}")
        if before and before["mac"] != mac and self.entry(before["mac"]).exists():
            raise No("ordered", f"{name} boots what was ordered for {before['mac']}, and is to be {mac}")
        # A run that is killed between the two writes both again; of a record alone it would not know that.
        self._host(name, record)
        self._write(name, record)

    def boot(self, name: str, version: int, given: dict[str, Any]) -> None:
        """The record first, with what was there before: an order that ends between the two has not been given."""
        record, entry = self._of_version(name, version), str(given["entry"])
        note = {**given["note"], "digest": hashlib.sha256(entry.encode()).hexdigest(), "at": time.time()}
        standing = self.shown(name)["entry"]
        told = record.get("note") or {}
        was = told if told.get("digest") == standing else record.get("was") or {}
        self._write(name, {**record, "note": note, "was": was})
        _replace(self.entry(record["mac"]), entry, 0o644)

    def unboot(self, name: str, version: int) -> None:
        record = self._of_version(name, version)
        self._write(name, record)
        with suppress(FileNotFoundError):
            os.unlink(self.entry(record["mac"]))

    def keep_out(self, name: str, out: bool) -> None:
        record = {**self.record(name), "out": out}
        self._host(name, record)
        self._write(name, record)

    def remove(self, name: str) -> None:
        host = self.root / "dhcp-hosts" / name
        try:
            card = str(self.record(name)["mac"])
        except No as exc:
            if exc.kind != "broken":
                raise
            card = self._text(host).partition(",")[0]
        entries = [self.entry(card)] if MAC.match(card) else []
        for path in (host, *entries, self.root / "nodes" / f"{name}.json"):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _of_version(self, name: str, version: int) -> dict[str, Any]:
        """:raises No: where it is not, or no longer, of this version."""
        there = (self.root / "nodes" / f"{name}.json").exists()
        record = self.record(name) if there else {}
        if record.get("version", 0) != version:
            raise No("changed", f"{name} is of version {record.get('version', 0)}, and this was made of {version}")
        return record

    def _write(self, name: str, record: dict[str, Any]) -> None:
        new = {**record, "name": name, "version": int(record.get("version", 0)) + 1}
        _replace(self.root / "nodes" / f"{name}.json", json.dumps(new, indent=1, sort_keys=True) + "\n", 0o640)

    def _host(self, name: str, record: dict[str, Any]) -> None:
        """What makes dnsmasq answer the node; a unit has it read this folder anew whenever something changes there."""
        if record.get("out"):  # beside another server's DHCP dnsmasq answers one that it is told to ignore
            with suppress(FileNotFoundError):
                os.unlink(self.root / "dhcp-hosts" / name)
            return
        line = ",".join(filter(None, [record["mac"], str(record.get("ip") or ""), name]))
        _replace(self.root / "dhcp-hosts" / name, line + "\n", 0o644)


def _locked(lock: Any) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _object(text: str) -> dict[str, Any]:
    """Empty where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _replace(path: Path, text: str, mode: int) -> None:
    new = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        os.unlink(new)
    with os.fdopen(
        os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "w", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.replace(new, path)


def _run(store: Store, words: argparse.Namespace, given_text: Callable[[], str]) -> dict[str, Any]:
    if words.verb == "list":
        return {"nodes": store.nodes(words.words), "now": time.time()}
    name = words.words[0]
    version = int(words.words[1]) if len(words.words) > 1 else 0
    # Whoever is slow to say what is to be written keeps nobody from writing.
    given = json.loads(given_text()) if words.verb in ("put", "boot") else {}
    with store.alone():
        if words.verb in ("put", "boot"):
            getattr(store, words.verb)(name, version, given)
        elif words.verb == "unboot":
            store.unboot(name, version)
        elif words.verb in ("out", "in"):
            store.keep_out(name, words.verb == "out")
        else:
            store.remove(name)
            return {"nodes": {}, "now": time.time()}
        return {"nodes": {name: store.shown(name)}, "now": time.time()}


def _failed(kind: str, text: str) -> tuple[int, str]:
    return 1, json.dumps({"error": text, "kind": kind})


def answered(argv: Sequence[str], given_text: Callable[[], str]) -> tuple[int, str]:
    """Exit status, and what is printed.

    :param given_text: reads what the caller has to say beside its arguments.
    """
    parser = argparse.ArgumentParser(prog="netboot")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("verb", choices=("list", "put", "boot", "unboot", "out", "in", "remove"))
    parser.add_argument("words", nargs="*")
    words = parser.parse_args(argv)
    if words.verb != "list" and not words.words:
        parser.error("which node?")
    try:
        return 0, json.dumps(_run(Store(words.root), words, given_text))
    except No as exc:
        return _failed(exc.kind, str(exc))
    except PermissionError as exc:
        return _failed("denied", str(exc))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        return _failed("io", f"{type(exc).__name__}: {exc}")


def main() -> None:
    status, told = answered(sys.argv[1:], sys.stdin.read)
    print(told)
    sys.exit(status)


if __name__ == "__main__":
    main()
