# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs ansible-test on a copy of the collection, on this machine, with an own HOME and no container.

    run_ansible_test.py BUILD PAIR sanity|units [argument ...]

It is started by the Python of the environment whose ansible-core is meant. ansible-test makes isolated environments
for its tests and fetches pip's installer for them; where that site cannot be reached, Python's own ensurepip serves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import recorded  # noqa: E402
import tree  # noqa: E402
from suite import handed_on  # noqa: E402

TARGET_MINORS = ("9", "10", "11", "12", "13", "14")
INSTALLER = "https://ci-files.testing.ansible.com/ansible-test/get-pip-{version}.py"

# In a process of its own: ensurepip.bootstrap() sets PIP_CONFIG_FILE for good and so loses a site's pip.conf.
STAND_IN = """\
import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "ensurepip", "--upgrade", "--default-pip"], stdout=subprocess.DEVNULL)
packages = [word for word in sys.argv[1:] if not word.startswith("-")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", *packages]))
"""


def installer_version() -> str:
    """The pip that this ansible-test asks for; it follows ansible-core's version."""
    import ansible_test

    source = Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py"
    found = re.search(r"\bpip='([0-9.]+)'", source.read_text(encoding="utf-8"))
    if not found:
        raise SystemExit(f"{source} names no pip version: ansible-test has changed, see make/run_ansible_test.py")
    return found.group(1)


def provide_installer(home: Path) -> None:
    version = installer_version()
    cached = home / ".ansible" / "test" / "cache" / f"get_pip_{version.replace('.', '_')}.py"
    if cached.is_file():
        return
    cached.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(INSTALLER.format(version=version), timeout=10) as answer:
            content = answer.read()
    except OSError as error:
        print(f"ansible-test: pip's installer is out of reach ({error}); using ensurepip")
        content = STAND_IN.encode()
    cached.write_bytes(content)


def python_folders() -> list[str]:
    """Where pythonX.Y really runs, for each version that a node may have: compile and import run on all of them."""
    finder = Path(__file__).resolve().parent / "find-python.sh"
    folders: list[str] = []
    for minor in TARGET_MINORS:
        answer = subprocess.run([str(finder), minor], stdout=subprocess.PIPE, text=True, check=False)
        folder = os.path.dirname(answer.stdout.strip())
        if folder and folder not in folders:
            folders.append(folder)
    return folders


def environment(home: Path) -> dict[str, str]:
    """No shims: ansible-test takes a name on PATH for an interpreter."""
    own = os.path.dirname(sys.executable)
    rest = [entry for entry in os.environ["PATH"].split(os.pathsep) if not entry.rstrip("/").endswith("shims")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON", "MAKE"))}
    path = os.pathsep.join([own, *python_folders(), *rest])
    return {**kept, "PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8"}


def hand_on(home: Path, build: Path) -> None:
    """ansible-test hands on no variable of ours; tests/conftest.py finds them here, and where the environments are."""
    given = {name: os.environ[name] for name in handed_on.NAMES if os.environ.get(name)}
    given.setdefault(handed_on.VENVS, str((build / "venv").resolve()))
    found = recorded.home()
    if found:  # beside the copy that ansible-test works on there is nothing
        given[recorded.VARIABLE] = str(found)
    (home / handed_on.NOTE).write_text(json.dumps(given), encoding="utf-8")


def main() -> int:
    build, pair, command, *arguments = sys.argv[1:]
    home = Path(build, f"home-{pair}").resolve()
    provide_installer(home)
    hand_on(home, Path(build))
    variables = environment(home)
    shipped = command == "sanity"  # tests are looked at by ruff, and by running them
    copied = tree.copy(Path.cwd(), Path(build, f"tree-{command}-{pair}").resolve(), shipped)
    tree.track(copied)
    python = ".".join(map(str, sys.version_info[:2]))
    test = [os.path.join(os.path.dirname(sys.executable), "ansible-test"), command, "--local", "--python", python]
    return subprocess.run([*test, *arguments], cwd=copied, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
