# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells gpufleet's event source what Slurm's triggers or DCGM's health watches say of nodes.

  python3 gpufleet_tell.py slurm EVENT NODES    as a program of strigger, which adds NODES: down, fail, drained or up
  dcgmi health --check --json | python3 gpufleet_tell.py dcgm

/etc/gpufleet/tell.conf has one setting a line, NAME=VALUE: URL (without the last part), TOKEN_PATH, and CA_PATH where
the certificate is signed by a CA of the site's own; CERTIFICATE_PATH and KEY_PATH (PEM) where the listener demands a
certificate, as well as the token or instead of it. Or the environment has them, as GPUFLEET_TELL_URL and so on.
Standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

CONFIG = "/etc/gpufleet/tell.conf"
SETTINGS = ("URL", "TOKEN_PATH", "CA_PATH", "CERTIFICATE_PATH", "KEY_PATH")
#: slurmctld ends a program of a trigger after 300 s; the last try may take 30 of them, scontrol 30 more.
LAST_TRY, PAUSE = 230.0, 10.0


def settings() -> dict[str, str]:
    found = {}
    try:
        with open(os.environ.get("GPUFLEET_TELL_CONFIG", CONFIG), encoding="utf-8") as lines:
            pairs = (line.strip().partition("=") for line in lines if not line.lstrip().startswith("#"))
            found = {name.strip(): value.strip() for name, _is, value in pairs if value}
    except FileNotFoundError:
        pass
    for name in SETTINGS:
        found[name] = os.environ.get(f"GPUFLEET_TELL_{name}", found.get(name, ""))
    return found


def document(text: str) -> object:
    """Where no watch is set, dcgmi prints a sentence."""
    try:
        return json.loads(text)
    except ValueError:
        sys.exit(f"gpufleet_tell: dcgmi printed no JSON, is a watch set (dcgmi health --set a)? {text.strip()[:200]!r}")


def message(words: list[str]) -> tuple[str, dict[str, object]]:
    if words[:1] == ["dcgm"] and len(words) == 1:
        return "dcgm", {"node": os.uname().nodename.partition(".")[0], "health": document(sys.stdin.read())}
    if words[:1] == ["slurm"] and len(words) == 3:
        argv = ["scontrol", "show", "hostnames", words[2]]
        names = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30).stdout.split()
        return "slurm", {"event": words[1], "nodes": names}
    sys.exit(__doc__)


def said_by(using: dict[str, str]) -> dict[str, str]:
    """The header of the token; a certificate may do without one."""
    if not using["TOKEN_PATH"]:
        return {}
    try:
        with open(using["TOKEN_PATH"], encoding="utf-8") as source:
            return {"Authorization": f"Bearer {source.readline().strip()}"}
    except (OSError, ValueError) as exc:
        sys.exit(f"gpufleet_tell: no token with TOKEN_PATH={using['TOKEN_PATH']}: {exc}")


def shown(using: dict[str, str]) -> ssl.SSLContext:
    """With the certificate, if there is one; its key may be in the same file."""
    try:
        context = ssl.create_default_context(cafile=using["CA_PATH"] or None)
        if using["CERTIFICATE_PATH"]:
            context.load_cert_chain(using["CERTIFICATE_PATH"], using["KEY_PATH"] or None)
    except OSError as exc:
        paths = " ".join(f"{name}={using[name]}" for name in ("CA_PATH", "CERTIFICATE_PATH", "KEY_PATH"))
        sys.exit(f"gpufleet_tell: no TLS with {paths}: {exc}")
    return context


def tried(request: urllib.request.Request, context: ssl.SSLContext) -> tuple[int, str]:
    """The code of the answer and what it says; 0 where none came that is whole."""
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return 200, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as exc:
        try:
            return exc.code, f"{exc.code} {exc.read(2000).decode(errors='replace')}"
        except (OSError, http.client.HTTPException) as broke:
            return exc.code, f"{exc.code} {broke!r}"
    except http.client.InvalidURL as exc:
        sys.exit(f"gpufleet_tell: URL={request.full_url}: {exc}")
    except (OSError, http.client.HTTPException) as exc:
        # What is no HTTP, or breaks off, comes from a proxy whose listener is away.
        return 0, str(exc) if isinstance(exc, OSError) else repr(exc)


def main() -> None:
    kind, told = message(sys.argv[1:])
    using = settings()
    if not using["URL"] or not (using["TOKEN_PATH"] or using["CERTIFICATE_PATH"]):
        sys.exit(f"gpufleet_tell: {CONFIG} says no URL, or neither TOKEN_PATH nor CERTIFICATE_PATH")
    url = f"{using['URL'].rstrip('/')}/{kind}"
    headers = {**said_by(using), "Content-Type": "application/json"}
    if not url.startswith(("https://", "http://")):
        sys.exit(f"gpufleet_tell: URL={url}: it begins with neither https:// nor http://")
    request = urllib.request.Request(url, json.dumps(told).encode(), headers)
    context = shown(using)
    end = time.monotonic() + LAST_TRY
    code, text = tried(request, context)
    while (code == 0 or code >= 500) and time.monotonic() + PAUSE <= end:
        time.sleep(PAUSE)
        code, text = tried(request, context)
    if code != 200:
        sys.exit(f"gpufleet_tell: {url}: {text}")
    print(text)


if __name__ == "__main__":
    main()
