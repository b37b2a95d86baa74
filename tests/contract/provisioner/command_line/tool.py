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
import sys
import time

THINKS = 0.02


def load(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"nodes": {}, "images": {}}


def save(path: str, content: dict) -> None:
    draft = f"{path}.{os.getpid()}"
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
            raise SystemExit(f"ERROR: unknown flag: {word}")
    return node


def write(path: str, verb: str, name: str, options: list[str]) -> int:
    content = load(path)
    time.sleep(THINKS)
    nodes = content["nodes"]
    if verb == "set" and name not in nodes:
        print(f"WARN: invalid node: {name}", file=sys.stderr)
        return 0
    if verb == "add" and name in nodes:
        print(f"ERROR: the node {name} exists", file=sys.stderr)
        return 255
    new = {"hwaddr": "", "image": "", "tags": {}, "stage": "", "sent": "", "seen": 0.0}
    nodes[name] = changed(nodes.get(name, new), options)
    save(path, content)
    print("ERROR: failed to reload the daemon", file=sys.stderr)
    return 255


def main(path: str, *argv: str) -> int:
    kind, verb, *rest = argv
    if (kind, verb) == ("image", "list"):
        print(json.dumps(load(path)["images"]))
        return 0
    if verb == "list":
        nodes = load(path)["nodes"]
        print(json.dumps({name: nodes[name] for name in (rest or nodes) if name in nodes}))
        return 0
    return write(path, verb, rest[0], rest[1:])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
