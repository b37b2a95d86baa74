# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's golden images: artifact, manifest, SHA256SUMS and its detached OpenPGP signature.

An artifact is a tar.gz whose members are laid over a node's root. The same input gives the same bytes, so that
a second run finds nothing to do, and a digest that somebody noted stays true.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

KERNEL_FILE = "vmlinuz"
KERNEL_BYTES = b"A node runs the kernel of its host; this file only gives its boot entry a kernel to name.\n" * 64
SUMS = "SHA256SUMS"
# 2026-11-01: a fixed time in every member, for the same bytes on each build.
MEMBER_TIME = 1793491200


def manifest(image: dict[str, str], name: str) -> bytes:
    told = {
        "schema": 1,
        "name": name,
        "version": image["version"],
        # The nodes share their host's kernel, so that is the one a golden image can name.
        "kernel": os.uname().release,
        "driver": image["driver"],
        "cuda": image["cuda"],
        "fabric_manager": image["driver"],
        "built": image["built"],
    }
    return (json.dumps(told, indent=2) + "\n").encode()


def members(image: dict[str, str], name: str, manifest_bytes: bytes) -> dict[str, bytes]:
    title = f"{name} {image['version']}"
    return {
        "etc/gpufleet/manifest.json": manifest_bytes,
        "etc/gpufleet/release": f"NAME={name}\nVERSION={image['version']}\n".encode(),
        "etc/motd": f"{title}: driver {image['driver']}, CUDA {image['cuda']}.\n".encode(),
        "etc/modprobe.d/gpufleet-nvidia.conf": b"options nvidia NVreg_RestrictProfilingToAdminUsers=1\n",
    }


def artifact(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        folders = sorted({str(parent) for path in files for parent in Path(path).parents} - {"."})
        for path in sorted(folders + list(files)):
            entry = tarfile.TarInfo(path)
            entry.mtime = MEMBER_TIME
            entry.uname = entry.gname = "root"
            if path in files:
                entry.size, entry.mode = len(files[path]), 0o644
                archive.addfile(entry, io.BytesIO(files[path]))
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)


def put(path: Path, content: bytes) -> bool:
    if path.exists() and path.read_bytes() == content:
        return False
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    fresh.replace(path)
    return True


def signature_fits(sums: Path, signature: Path, keyring: Path) -> bool:
    if not signature.exists():
        return False
    argv = ["gpgv", "--quiet", "--keyring", str(keyring), str(signature), str(sums)]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def sign(sums: Path, signature: Path, home: Path) -> None:
    fresh = signature.with_name(f".{signature.name}.new")
    fresh.unlink(missing_ok=True)
    quiet = ["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""]
    argv = ["gpg", "--homedir", str(home), *quiet, "--armor", "--detach-sign", "--output", str(fresh), str(sums)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")
    fresh.chmod(0o644)
    fresh.replace(signature)


def build(folder: Path, keys: Path, name: str, images: list[dict[str, str]]) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {KERNEL_FILE: KERNEL_BYTES}
    for image in images:
        manifest_bytes = manifest(image, name)
        base = f"{name}-{image['version']}"
        wanted[f"{base}.manifest.json"] = manifest_bytes
        wanted[f"{base}.tar.gz"] = artifact(members(image, name, manifest_bytes))
    digests = {file: hashlib.sha256(content).hexdigest() for file, content in wanted.items()}
    lines = "".join(f"{digests[file]}  {file}\n" for file in sorted(digests))
    changed = [file for file, content in {**wanted, SUMS: lines.encode()}.items() if put(folder / file, content)]
    # The file of the wrong signer is what a test or a visitor offers to see it refused.
    for signature, signer in ((f"{SUMS}.asc", "images_signer"), (f"{SUMS}.wrong_signer.asc", "wrong_signer")):
        if not signature_fits(folder / SUMS, folder / signature, keys / f"{signer}.gpg"):
            sign(folder / SUMS, folder / signature, keys / f"{signer}.gnupg")
            changed.append(signature)
    told = {
        image["version"]: {
            "sha256": digests[f"{name}-{image['version']}.tar.gz"],
            "size": len(wanted[f"{name}-{image['version']}.tar.gz"]),
        }
        for image in images
    }
    return {"changed": bool(changed), "files": changed, "images": told}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keys", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--images", type=json.loads, required=True, help="list of version, driver, cuda, built as JSON")
    asked = parser.parse_args()
    print(json.dumps(build(asked.folder, asked.keys, asked.name, asked.images)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
