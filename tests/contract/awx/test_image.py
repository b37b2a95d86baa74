# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make/ee_image.py plays a Containerfile as an engine builds it. That of the execution environment is in make ee-image,
which fetches what pip installs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from suite.container import skip_on_layers

pytestmark = pytest.mark.needs_root
PROGRAM = Path(__file__).resolve().parents[3] / "make" / "ee_image.py"
CONTAINERFILE = """\
ARG BASE="example.com/base"
ARG PYCMD="/usr/bin/python3"
ARG SAID="as it was"

FROM $BASE AS base
USER root
ARG PYCMD
ARG PKGMGR=/usr/bin/dnf
COPY files/ /output/
ENV PLACE=/opt/place OTHER=$PYCMD
RUN $PKGMGR install -y coreutils; $PKGMGR clean all
# A remark
FROM base AS builder
WORKDIR /build
ARG SAID
RUN mkdir -p $PLACE && echo "$SAID in $(pwd)" >$PLACE/built && touch $PLACE/left

FROM base AS final
COPY --from=builder /opt/place/built $PLACE/built
RUN if touch /opt/base/written 2>/dev/null; then rm /opt/base/written; else touch $PLACE/base-was-kept; fi
RUN ls /dev >$PLACE/devices && echo x >/dev/null && test -r /dev/urandom && test -w /dev/shm
LABEL a=b
USER 1000
ENTRYPOINT ["/output/entry", "--"]
CMD ["bash"]
"""
ENTRY = '#!/bin/sh\nshift\nENTERED=yes exec "$@"\n'
LOOKS = """
import json, os, sys
print(json.dumps([os.getuid(), os.environ["ENTERED"], os.environ["OTHER"], sys.prefix,
                  open("/opt/place/built").read(), sorted(os.listdir("/opt/place")), os.path.exists("/build"),
                  open("/opt/place/devices").read()]))
"""


def played(folder: Path, containerfile: str) -> tuple[int, str]:
    skip_on_layers()
    (folder / "context" / "files").mkdir(parents=True)
    (folder / "context" / "Containerfile").write_text(containerfile, encoding="utf-8")
    entry = folder / "context" / "files" / "entry"
    entry.write_text(ENTRY, encoding="utf-8")
    entry.chmod(0o755)
    (folder / "looks.py").write_text(LOOKS, encoding="utf-8")
    base = Path(sys.base_prefix) / "bin" / "python3"
    argv = [sys.executable, str(PROGRAM), str(folder / "context"), str(base), str(folder / "looks.py")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_stages_are_layers_and_the_last_one_is_started_as_its_user(tmp_path: Path) -> None:
    code, told = played(tmp_path, CONTAINERFILE)
    assert code == 0, told
    found = json.loads(told.splitlines()[-1])
    python = "/opt/python"
    # No step of an image writes to this machine's own Python, or finds its disks.
    devices = "fd full null random shm stderr stdin stdout urandom zero"
    assert found.pop().split() == devices.split()
    there = ["base-was-kept", "built", "devices"]
    assert found == [1000, "yes", f"{python}/bin/python3", python, "as it was in /build\n", there, False]
    assert not Path("/opt/place").exists() and not Path("/opt/python").exists()


def test_a_step_that_fails_ends_it_and_a_package_that_is_not_to_be_had_is_named(tmp_path: Path) -> None:
    code, told = played(tmp_path, CONTAINERFILE.replace("install -y coreutils; ", "install -y no-such-thing && "))
    assert code == 1 and "no-such-thing is not installed" in told and "builder" not in told
