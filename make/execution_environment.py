# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the execution environment is made of, without an engine of containers: from its definition and the artifact.

    execution_environment.py lists FOLDER ARTIFACT   write its lists into FOLDER, by the programs of ansible-builder
    execution_environment.py contents FOLDER PAGE    FOLDER/venv was installed: write down what is in it, and its size

ansible-builder makes the build context, and the script in it that an image would run reads the lists of the collection.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFINITION = ROOT / "extensions" / "awx" / "execution-environment.yml"
BIN = Path(sys.executable).parent
#: Name, version and bytes of each distribution that a Python has installed.
SIZES = """
import json
from importlib import metadata
told = []
for one in metadata.distributions():
    paths = {path for path in map(one.locate_file, one.files or ()) if path.is_file()}
    told.append([one.metadata["Name"], one.version, sum(path.stat().st_size for path in paths)])
print(json.dumps(told))
"""
PAGE = """\
# The execution environment

Written by `make ee WRITE=1`: its lists, installed by pip on {python}, as they were on {date}. The lists are
[meta/ee-requirements.txt](../../meta/ee-requirements.txt), [meta/ee-bindep.txt](../../meta/ee-bindep.txt) and
[the definition](../../extensions/awx/execution-environment.yml) of the environment;
[How to use it with AWX](../how-to/use-with-awx.md) tells how an image is built of them. Versions are the newest that
the lists allow, so those of your image may be others: `pip list` in it tells them.

| part | size |
|---|---|
| Python packages, {count} of them | {packages} MB |
| the collection | {collection} MB |
| system packages, as Debian has them: {debian} | {system} MB |
| the base image | as it is; none was at hand here |

On RPM distributions the system packages are called {rpm}. Slurm's commands come out of a site's own packages
(`SLURM_PACKAGES`), and so does what `KUBERNETES_PACKAGES` and `POSTGRESQL_PACKAGES` name; none of them is counted here.

## Python packages

| package | version | MB |
|---|---|---|
{rows}
"""


def run(*argv: object, cwd: Path | None = None) -> str:
    # What other paths have is not there.
    env = {name: value for name, value in os.environ.items() if name not in ("ANSIBLE_COLLECTIONS_PATH", "PYTHONPATH")}
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{argv[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def lists(folder: Path, artifact: Path) -> None:
    """requirements.txt: what pip installs; bindep.txt: packages of the system; collections: the collection, installed;
    environment.json: what the image sets."""
    for old in ("context", "collections", "definition"):
        shutil.rmtree(folder / old, ignore_errors=True)
    beside = folder / "definition"
    beside.mkdir(parents=True)
    for one in (DEFINITION, artifact):
        shutil.copy(one, beside)
    context = folder / "context"
    run(
        BIN / "ansible-builder",
        "create",
        "-f",
        beside / DEFINITION.name,
        "-c",
        context,
        "--output-filename",
        "Containerfile",
    )
    build = context / "_build"
    install = ("collection", "install", "--offline", "-r", "requirements.yml", "-p", folder / "collections")
    run(BIN / "ansible-galaxy", *install, cwd=build)
    asked, system = folder / "of-the-collection.txt", folder / "bindep.txt"
    introspect = ("introspect", folder / "collections", f"--write-bindep={system}", f"--write-pip={asked}")
    run(sys.executable, build / "scripts" / "introspect.py", *introspect)
    text = (context / "Containerfile").read_text(encoding="utf-8")
    core = re.findall(r'^ARG ANSIBLE_INSTALL_REFS="([^"]+)"$', text, re.M)[0].split()
    ours = [line.partition("#")[0].strip() for line in asked.read_text(encoding="utf-8").splitlines()]
    wanted = [*core, *filter(None, ours)]
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in wanted), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps(dict(variables(text))), encoding="utf-8")
    # make/venv.sh looks for its installer beside a list.
    shutil.copy(ROOT / "requirements" / "uv.lock", folder)


def variables(text: str) -> Iterator[tuple[str, str]]:
    """What ENV sets that is no argument of the build."""
    for line in re.findall(r"^ENV (.+)$", text, re.M):
        pairs = (word.partition("=") for word in shlex.split(line))
        yield from ((name, value) for name, _equals, value in pairs if "$" not in value)


def system_packages(folder: Path, platform: str = "") -> list[str]:
    """What bindep reads in the list for this system, or the lines of it for another platform."""
    path = folder / "bindep.txt"
    if not platform:
        return run(BIN / "bindep", "-l", "newline", "-f", path).split()
    lines = path.read_text(encoding="utf-8").splitlines()
    return sorted({line.split()[0] for line in lines if f"platform:{platform}" in line})


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f}"


def contents(folder: Path, page: Path) -> None:
    python = folder / "venv" / "bin" / "python"
    found = sorted(json.loads(run(python, "-c", SIZES)), key=lambda one: one[0].lower())
    tree = [path for path in (folder / "collections").rglob("*") if path.is_file()]
    debian = system_packages(folder)
    sizes = run("dpkg-query", "-W", "-f", "${Installed-Size}\n", *debian).split()
    text = PAGE.format(
        python=run(python, "-V").strip(),
        date=run("date", "-u", "+%F").strip(),
        count=len(found),
        packages=megabytes(sum(size for _name, _version, size in found)),
        collection=megabytes(sum(path.stat().st_size for path in tree)),
        debian=", ".join(f"`{name}`" for name in debian),
        system=megabytes(sum(map(int, sizes)) * 1024),
        rpm=", ".join(f"`{name}`" for name in system_packages(folder, "rpm")),
        rows="\n".join(f"| {name} | {version} | {megabytes(size)} |" for name, version, size in found),
    )
    page.write_text(text, encoding="utf-8")


def main() -> int:
    if len(sys.argv) != 4 or sys.argv[1] not in ("lists", "contents"):
        print(__doc__, file=sys.stderr)
        return 2
    {"lists": lists, "contents": contents}[sys.argv[1]](Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
