# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provisioner behind the driver beside this file: a command over a file, with the manners of such commands.

Nodes boot their image from the network each time and keep nothing; the command boots none of them. Its exit status
says little: 255 after a write that succeeded, 0 after one that did not. Of two writes at once one may be lost, since
each reads the file, thinks, and writes it whole.

    imagectl node list [NAME...]
    imagectl node add NAME [--hwaddr MAC] [--tag KEY=VALUE]...
    imagectl node set NAME [--hwaddr MAC] [--image IMAGE | --no-image] [--tag KEY=VALUE]... [--untag KEY]...
    imagectl image list
"""

from __future__ import annotations

import json
import os
import threading
import time

THINKS = 0.02


def load(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"nodes": {}, "images": {}}


def save(path: str, content: dict) -> None:
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(draft, path)


def changed(node: dict, options: list[str]) -> dict:
    words = iter(options)
    for word in words:
        if word == "--no-image":
            node["image"] = ""
        elif word in ("--hwaddr", "--image"):
            node[word[2:]] = next(words)
        elif word == "--tag":
            key, _mark, value = next(words).partition("=")
            node["tags"][key] = value
        elif word == "--untag":
            node["tags"].pop(next(words), None)
        else:
            raise ValueError(f"ERROR: unknown flag: {word}\n")
    return node


def write(path: str, verb: str, name: str, options: list[str]) -> tuple[int, str, str]:
    content = load(path)
    time.sleep(THINKS)
    nodes = content["nodes"]
    if verb == "set" and name not in nodes:
        return 0, "", f"WARN: invalid node: {name}\n"
    if verb == "add" and name in nodes:
        return 255, "", f"ERROR: the node {name} exists\n"
    new = {"hwaddr": "", "image": "", "tags": {}, "stage": "", "sent": "", "seen": 0.0}
    try:
        nodes[name] = changed(nodes.get(name, new), options)
    except ValueError as exc:
        return 1, "", str(exc)
    save(path, content)
    return 255, "", "ERROR: failed to reload the daemon\n"


def main(path: str, *argv: str) -> tuple[int, str, str]:
    """Exit status, and what is printed."""
    kind, verb, *rest = argv
    if (kind, verb) == ("image", "list"):
        return 0, json.dumps(load(path)["images"]) + "\n", ""
    if verb == "list":
        nodes = load(path)["nodes"]
        return 0, json.dumps({name: nodes[name] for name in (rest or nodes) if name in nodes}) + "\n", ""
    return write(path, verb, rest[0], rest[1:])
