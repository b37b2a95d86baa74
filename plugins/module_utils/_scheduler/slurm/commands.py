# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm by its commands. PRIVATE to the collection.

Read in bulk with ``scontrol -o show node`` (0.06 s for 10,000 nodes) and ``squeue``. An update of several is applied in
part where one of the names is wrong, so one that fails is told of all of them. No name ever reaches a shell.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Unplaced, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.halves import by_halves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import (
    Reservation,
    parse_reservations,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import (
    blocks,
    cluster_name,
    is_name,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.link import Link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.tables import ERRORS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import (
    Record,
    not_found,
    parse_jobs,
    parse_names,
    parse_nodes,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.there import SETTING, There

#: Slurm's own MessageTimeout is 10 s, and a command tries each controller.
_COMMAND_SECONDS = 60.0
#: A user's own settings (SQUEUE_USERS, SQUEUE_STATES, SLURM_CLUSTERS) would hide jobs and nodes from us.
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT", "SLURM_CONF_SERVER"})
_HIDING = ("SLURM_", "SQUEUE_", "SINFO_", "SCONTROL_", "SBATCH_", "SCANCEL_")
#: For what a job is given; Slurm's own commands are found by ours.
_PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: How long a token is asked for; Slurm's own default, which AuthAltParameters may cut.
_TOKEN_SECONDS = 1800
#: From 25.05 on each partition may go by a topology of its own.
TOPOLOGIES = (25, 5)
_AS_OF = "Configuration data as of "
_RIGHTS = "run as root, as SlurmUser or as an operator of the accounting, on the machine that runs the Slurm commands"


class Commands(Link):
    """:param conf: the path of slurm.conf; empty for the commands' own. login_host: a host of the inventory on which
    the commands are run; empty for this machine."""

    def __init__(self, conf: str, login_host: str = "") -> None:
        self._settings: Mapping[str, str] | None = None
        self.conf = conf
        self._there = There(login_host, conf, _COMMAND_SECONDS, _HIDING, tuple(_KEPT)) if login_host else None
        #: Are they run on another machine?
        self.far = self._there is not None
        self.address = self._there.address if self._there else conf or os.environ.get("SLURM_CONF", "")
        if conf and not self.far and not os.path.isfile(conf):
            # The commands would retry for a minute.
            raise ConfigError(
                "there is no such slurm.conf on this machine",
                address=conf,
                do="set gpufleet_scheduler_conf to the cluster's slurm.conf, or delegate the task to a login node",
            )

    # -- reading -----------------------------------------------------------------------------------------------

    def records(self, names: Sequence[str], spoilt: dict[str, BadAnswer]) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for block in blocks(names):
            found.update(by_halves(block, self._records, spoilt))
        return found

    def jobs(self, names: Sequence[str]) -> Mapping[str, Sequence[Work]]:
        found: dict[str, list[Work]] = {}
        for block in blocks(names):
            found.update(self._jobs(block))
        return found

    def known(self) -> dict[str, tuple[str, ...]]:
        return parse_names(self._shown("node"))

    def _records(self, block: Sequence[str]) -> dict[str, Record]:
        # --all: nodes of hidden partitions are left out without it, and would look absent.
        done = self._command("scontrol", "--all", "-o", "show", "node", ",".join(block))
        unknown = not_found(done.stdout)
        if done.returncode != 0 and not unknown:
            raise self._error(done, f"scontrol show node {block[0]}{', ...' if block[1:] else ''}")
        records = parse_nodes(done.stdout, block)
        silent = [name for name in block if name not in records and name not in unknown]
        if silent:
            raise BadAnswer(
                "scontrol said nothing about a node that it was asked for",
                node=silent[0],
                address=self.address,
                seen=cut(done.stdout + done.stderr, 300),
            )
        return {name: records[name] for name in block if name in records}

    def _jobs(self, block: Sequence[str]) -> Mapping[str, list[Work]]:
        done = self._command("squeue", "--all", "-h", "-o", "%i|%T|%N|%M", "-w", ",".join(block))
        if done.returncode != 0:
            raise self._error(done, "squeue")
        return parse_jobs(done.stdout)

    def reservations(self) -> Mapping[str, Sequence[Reservation]]:
        return parse_reservations(self._shown("reservation"))

    def _shown(self, what: str) -> str:
        """All of a kind, a line each; what is hidden from people among them."""
        done = self._command("scontrol", "--all", "-o", "show", what)
        if done.returncode != 0:
            raise self._error(done, f"scontrol show {what}")
        return done.stdout

    def unplaced(self) -> Unplaced:
        unread: dict[str, str] = {}
        maps = {"": self._legible("", unread)}
        if not maps[""] and self.version() < TOPOLOGIES:
            return Unplaced({}, unread.get("", ""))
        partitions = self.partitions()
        maps.update({name: self._legible(name, unread) for name in sorted({one.topology for one in partitions} - {""})})
        return Unplaced(shown.lacking(partitions, maps), "; ".join(unread.values()))

    def _legible(self, name: str, unread: dict[str, str]) -> dict[str, shown.Group]:
        """A form that nobody here knows leaves nobody out: Slurm goes by it all the same."""
        text = self._topology(name)
        try:
            return shown.parse_topology(text)
        except BadAnswer as exc:
            unread[name] = f"{exc.what}: {exc.seen}"
            return {}

    def partitions(self) -> list[shown.Partition]:
        return shown.parse_partitions(self._shown("partition"))

    def topology(self, name: str = "") -> dict[str, shown.Group]:
        """The one of this name, or the cluster's own."""
        return shown.parse_topology(self._topology(name))

    def _topology(self, name: str) -> str:
        done = self._command("scontrol", "show", "topology", *([name] if name else []))
        if done.returncode == 0 and not done.stdout.strip() and shown.NONE in done.stderr:
            return ""
        if done.returncode != 0 or not done.stdout.strip():
            raise self._error(done, "scontrol show topology")
        return done.stdout

    def version(self) -> tuple[int, int]:
        """Year and month of slurmctld's release; of one that tells none, no release at all."""
        found = re.match(r"(\d+)\.(\d+)", self.setting("SLURM_VERSION"))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def setting(self, name: str) -> str:
        return self._config().get(name, "")

    def place(self) -> Place:
        self._settings = None  # the file may be another one by now
        told = self._config()
        # With its address behind it in brackets; after a failover the first one is the same still.
        host = told.get("SlurmctldHost[0]", "").partition("(")[0]
        name = cluster_name(told.get("ClusterName", ""))
        return Place(f"slurm {name}" if name else "", host if is_name(host) else "")

    def _config(self) -> Mapping[str, str]:
        """slurmctld's own settings, as they were when they were asked for."""
        if self._settings is None:
            told = self._show_config()
            lines = [line.partition("=") for line in told.splitlines()]
            settings = {name.strip(): value.strip() for name, _equals, value in lines}
            if not {"SlurmUser", "PrivateData"} <= set(settings):
                seen = cut(told, 200)
                raise BadAnswer("scontrol show config without SlurmUser", address=self.address, seen=seen)
            self._settings = settings
        return self._settings

    def _show_config(self) -> str:
        return self.done("scontrol show config", "scontrol", "show", "config")

    def clock(self) -> str:
        # measured: slurmctld's time at its answer. The command tells it, as a boot, in the zone of where it runs.
        first = self._show_config().partition("\n")[0]
        return first[len(_AS_OF) :].strip() if first.startswith(_AS_OF) else ""

    def slurm_user(self) -> tuple[str, ...]:
        """Name and number, as ``slurm(64030)`` shows them: a reason is signed with the name where it is known here."""
        name, _bracket, number = self._config()["SlurmUser"].rstrip(")").partition("(")
        return tuple(word for word in (name, number) if word)

    def hides(self, what: str) -> FleetError | None:
        if not self._hides(what):
            return None
        return Refused(
            f"Slurm hides {what} from this user",
            address=self.address,
            seen=f"PrivateData={what} in slurm.conf",
            do=_RIGHTS,
        )

    def _hides(self, what: str) -> bool:
        if self._uid() == 0:
            return False
        private = self._config()["PrivateData"].lower().replace(",", " ").split()
        return what in private and str(self._uid()) not in self.slurm_user() and not self._operator()

    def _uid(self) -> int:
        return self._there.identity[0] if self._there else os.geteuid()

    def _operator(self) -> bool:
        """Whether the accounting gives this user's number a level that is shown everything; without accounting none."""
        try:
            user = self._there.identity[1] if self._there else pwd.getpwuid(os.geteuid()).pw_name
            done = self._command("sacctmgr", "-n", "-P", "show", "user", f"name={user}", "format=adminlevel")
        except (KeyError, ConfigError):
            return False
        return done.returncode == 0 and done.stdout.split() in (["Operator"], ["Administrator"])

    def prerequisites(self) -> Sequence[FleetError]:
        """Slurm takes changes of nodes from root, from SlurmUser and from operators alone."""
        uid = self._uid()
        if uid == 0 or str(uid) in self.slurm_user() or self._operator():
            return ()
        seen = f"this is user {uid}; SlurmUser is {self._config()['SlurmUser']}"
        return (Refused("Slurm lets this user change no node", address=self.address, seen=seen, do=_RIGHTS),)

    def token(self, user: str) -> str:
        """What ``scontrol token`` prints for the login at slurmrestd."""
        return self.done("scontrol token", "scontrol", "token", f"username={user}", f"lifespan={_TOKEN_SECONDS}")

    # -- for what is built on it -------------------------------------------------------------------------------

    def user(self) -> str:
        """As whom the commands are run, in a form that they take."""
        return str(self._uid())

    def shown(self, what: str) -> str:
        return self._shown(what)

    def ran(self, program: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return self._command(program, *argv)

    def error(self, done: subprocess.CompletedProcess[str], what: str) -> FleetError:
        return self._error(done, what)

    def done(self, what: str, program: str, *argv: str) -> str:
        """What it printed. :raises FleetError: where it says that it failed."""
        return self._well(self._command(program, *argv), what)

    def _well(self, ended: subprocess.CompletedProcess[str], what: str) -> str:
        if ended.returncode != 0:
            raise self._error(ended, what)
        return ended.stdout

    def job_number(self, told: str, node: str) -> str:
        """The number in what ``sbatch --parsable`` told. :raises BadAnswer: where there is none."""
        number = told.strip().partition(";")[0]
        if not re.fullmatch(r"\d+", number):
            seen = cut(number, 200)
            raise BadAnswer("sbatch told no number of the job", node=node, address=self.address, seen=seen)
        return number

    # -- writing -----------------------------------------------------------------------------------------------

    def update_request(self, name: str, state: str, reason: str | None = None) -> str:
        return " ".join(["scontrol update", *_settings(name, state, reason)])

    def update(self, name: str, state: str, reason: str | None = None) -> None:
        done = self._command("scontrol", "update", *_settings(name, state, reason))
        if done.returncode != 0:
            raise self._error(done, f"scontrol update State={state}").located(node=name)

    def update_each(self, names: Sequence[str], state: str, reason: str | None = None) -> dict[str, FleetError]:
        failed: dict[str, FleetError] = {}
        for block in blocks(names):
            try:
                self.update(",".join(block), state, reason)
            except FleetError as exc:
                exc.node = "" if block[1:] else exc.node
                failed.update(dict.fromkeys(block, exc))
        return failed

    def reconfigure(self) -> None:
        """Have all daemons read their files."""
        self.done("scontrol reconfigure", "scontrol", "reconfigure")

    # -- the commands ------------------------------------------------------------------------------------------

    def tell(self, program: str, *argv: str, script: str) -> str:
        """What a command says that reads this, and hands its whole environment on: it has none of ours."""
        return self._well(self._command(program, *argv, script=script, env=_plain()), program)

    def ask(self, program: str, *argv: str) -> str:
        """What a command says."""
        return self.done(program, program, *argv)

    def _command(
        self, program: str, *argv: str, script: str | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        if self._there:
            return self._there.run(program, *argv)
        if env is None:
            env = {key: value for key, value in os.environ.items() if key in _KEPT or not key.startswith(_HIDING)}
        env.update(LC_ALL="C", SLURM_TIME_FORMAT="standard")
        if self.conf:
            env["SLURM_CONF"] = self.conf
        path = shutil.which(program)
        if path is None:
            raise ConfigError(
                f"the command {program} is not installed on this machine",
                do="install slurm-client, or name a host of the inventory that has it, such as a login node, in"
                f" {SETTING}",
            )
        try:
            return subprocess.run(  # pylint: disable=ansible-bad-function  # both doors of a verb come here
                [path, *argv],
                env=env,
                **({"stdin": subprocess.DEVNULL} if script is None else {"input": script}),  # type: ignore[arg-type]
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(
                f"{program} did not end within {_COMMAND_SECONDS:g} s",
                address=self.address,
                do="check that slurmctld answers: scontrol ping",
                details={"slow": _COMMAND_SECONDS},
            ) from None

    def _error(self, done: subprocess.CompletedProcess[str], what: str) -> FleetError:
        said = short(done.stderr + " " + done.stdout)
        if done.returncode < 0:
            return Unreachable(
                f"{what}: the command was ended by signal {-done.returncode} before it answered",
                address=self.address,
                seen=said or "no message",
                do="run again: what it had done already is read back then",
            )
        for text, kind, meaning, remedy in ERRORS:
            if text.lower() in said.lower():
                return kind(f"{what}: {meaning}", address=self.address, seen=said, do=remedy)
        return Refused(
            f"{what} failed with exit code {done.returncode}",
            address=self.address,
            seen=said or "no message",
            do="set gpufleet_scheduler_conf to the slurm.conf of this cluster, or run the command by hand with the same"
            " SLURM_CONF",
        )


def _plain() -> dict[str, str]:
    leads = {key: os.environ[key] for key in ("SLURM_CONF", "SLURM_CONF_SERVER") if key in os.environ}
    return {"PATH": _PLAIN_PATH, **leads}


def _settings(name: str, state: str, reason: str | None) -> list[str]:
    return [f"NodeName={name}", f"State={state}", *([] if reason is None else [f"Reason={reason}"])]
