# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate as one script that a scheduler runs on a node which has nothing of us. PRIVATE to the collection.

What the gate needs of ``module_utils`` goes with it, found by what its files import, and stands in the memory of the
script's own process: a job that is killed leaves no file of it.
"""

from __future__ import annotations

import ast
import base64
import functools
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names

_PACKAGE = "ansible_collections.gpufleet.baremetal.plugins.module_utils"
_FOLDER = Path(__file__).resolve().parents[1] / "module_utils"
#: What of a gate's driver runs it in a job.
_MAIN = "_gate/{driver}/in_job.py"
#: Becomes the first line of the script.
_PYTHON = re.compile(r"/[A-Za-z0-9._/+-]{1,200}\Z")
_SCRIPT = """\
#!{python}
# A verification by gpufleet.baremetal of a node that was idle. Any other job displaces it: nothing is lost then.
import base64, json, os, sys
os.umask(0o077)
os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
held = os.memfd_create("gpufleet")
with os.fdopen(held, "wb", closefd=False) as room:
    room.write(base64.b64decode(\"\"\"
{code}
\"\"\"))
sys.path.insert(0, "/proc/self/fd/%d" % held)
from {package}._gate.{driver}.in_job import main
sys.exit(main(json.loads(base64.b64decode(\"\"\"
{asked}
\"\"\"))))
"""


def script(gate: str, params: Mapping[str, Any], *, python: str) -> str:
    """What runs this gate with these options, by this interpreter of the node.

    :raises ConfigError: for an interpreter that is no path.
    """
    if not _PYTHON.match(python):
        raise ConfigError("no interpreter of the node", wanted="an absolute path", seen=python)
    driver = next(name for name, verb in names.DRIVERS.items() if verb == gate)
    asked = base64.encodebytes(json.dumps(dict(params)).encode()).decode().strip()
    return _SCRIPT.format(python=python, code=_code(driver), package=_PACKAGE, driver=driver, asked=asked)


@functools.cache
def _code(driver: str) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(_files(driver).items()):
            archive.writestr(f"{_PACKAGE.replace('.', '/')}/{name}", text)
        parts = _PACKAGE.split(".")
        for at in range(1, len(parts)):
            archive.writestr(f"{'/'.join(parts[:at])}/__init__.py", "")
    return base64.encodebytes(packed.getvalue()).decode().strip()


def _files(driver: str) -> dict[str, str]:
    """By path below module_utils, what the gate in a job imports, and whatever that does."""
    found: dict[str, str] = {}
    left = [_MAIN.format(driver=driver)]
    while left:
        name = left.pop()
        path = _FOLDER / name
        if name in found or not path.is_file():
            continue
        found[name] = path.read_text(encoding="utf-8")
        left += _imported(found[name])
    # Out of an archive nothing is imported of a folder that does not say that it is a package; ours say nothing more.
    folders = {str(folder / "__init__.py") for name in found for folder in PurePosixPath(name).parents}
    return {**dict.fromkeys(folders, ""), **found}


def _imported(text: str) -> Iterator[str]:
    """Every file that such a text may mean; there is not one for each."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            place = (node.module or "")[len(_PACKAGE) + 1 :].replace(".", "/")
            for whole in (place, *(f"{place}/{one.name}".lstrip("/") for one in node.names)):
                yield from (f"{whole}.py", f"{whole}/__init__.py") if whole else ()
