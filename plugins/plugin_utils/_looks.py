# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks many hosts from one worker, each over its own connection plugin. PRIVATE to the collection.

A look costs 5 ms of CPU a host here, and 36 as a task of that host's own, which holds a fork as well (60 hosts, local
connection, a command of three lines); a soak of a day is looked at thousands of times.

A connection gets the options that a task of its own would give it: from the host's variables, from variables of the
task, its block, its role and the play, each made for that host, and from the task's and the play's keywords. Nothing of
the host that runs the task goes to another, but for what a keyword makes of its variables: Ansible has filled that in
before an action begins.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ansible import constants as C
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.playbook.play_context import PlayContext
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import become_loader, connection_loader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, tail
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import children
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import Variables

#: Each is a process of ssh while it lasts; the machine that runs the play has other work, too.
_THREADS = 16
#: What a keyword says of the connection, where no variable does.
_KEYWORDS = ("become", "become_user", "become_method", "become_flags", "connection", "no_log", "remote_user")


class Looks:
    """The connections of a batch."""

    def __init__(
        self,
        action: ActionBase,
        variables: Mapping[str, Any],
        *,
        timeout: float,
        connect: int | None = None,
        threads: int = _THREADS,
    ) -> None:
        """timeout: how long a host may take for its answer. connect: how long at most until its connection is made."""
        self._action = action
        self._task = action._task
        self._variables = variables
        self._timeout = self._within = timeout
        self._connect = connect
        self._threads = threads
        self._reads: bytes | None = None
        self._no_log = False
        self._connections: dict[str, Any] = {}
        self._stuck: dict[str, threading.Thread] = {}
        self._asked = _asked(action, variables)

    def ask(
        self, commands: Mapping[str, str], *, timeout: float | None = None, reads: str = "", no_log: bool = False
    ) -> dict[str, tuple[str, str]]:
        """The output of each host's command, or what was in the way. A host that hangs holds up nobody.

        :param timeout: how long each may take this time, where that is another time than always.
        :param reads: what each command reads, by no terminal.
        :param no_log: shown is neither what is answered, however much is to be shown of the run, nor what was in the
            way.
        """
        self._within = self._timeout if timeout is None else timeout
        self._reads, self._no_log = reads.encode() or None, no_log
        found: dict[str, tuple[str, str]] = {}
        todo: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        answers: queue.SimpleQueue[tuple[str, tuple[str, str]]] = queue.SimpleQueue()
        for host, command in commands.items():
            self._stuck = {name: thread for name, thread in self._stuck.items() if thread.is_alive()}
            if host in self._stuck:
                found[host] = ("", "the last look at it still hangs")
                continue
            try:
                self._connection(host)
            except Exception as exc:  # a host whose variables are broken is silent; the others are not
                found[host] = ("", f"no connection: {exc}")
                continue
            todo.put((host, command))
        return {**found, **self._gather(todo, answers)}

    def once(self, host: str) -> None:
        """Make its connection now, and so that it sends nothing twice: what a host is told may be a write."""
        with suppress(Exception):  # asked, it says what is wrong with it
            connection = self._connection(host)
            if connection.has_option("reconnection_retries"):
                connection.set_option("reconnection_retries", 0)

    def end(self) -> None:
        """What still hangs is ended here: its client would outlive this worker, and wait on.

        Call it when no other look is out: what belongs to a host that hangs is then all that is left.
        """
        if any(thread.is_alive() for thread in self._stuck.values()):
            for pid in children(os.getpid()):
                with suppress(OSError):
                    os.kill(pid, signal.SIGTERM)

    def _gather(
        self, todo: queue.SimpleQueue[tuple[str, str]], answers: queue.SimpleQueue[tuple[str, tuple[str, str]]]
    ) -> dict[str, tuple[str, str]]:
        """Some at a time, each with its own end. The threads are daemons: one that hangs must not keep the worker."""
        found: dict[str, tuple[str, str]] = {}
        running: dict[str, tuple[threading.Thread, float]] = {}
        while running or not todo.empty():
            while len(running) < self._threads and not todo.empty():
                host, command = todo.get()
                thread = threading.Thread(target=self._one, args=(host, command, answers.put), daemon=True)
                thread.start()
                running[host] = (thread, time.monotonic() + self._within)
            soonest = min(end for _thread, end in running.values())
            try:
                host, answer = answers.get(timeout=max(0.0, soonest - time.monotonic()))
            except queue.Empty:
                self._give_up(running, found)
                continue
            if host in running:
                found[host] = answer
                del running[host]
        return found

    def _give_up(self, running: dict[str, tuple[threading.Thread, float]], found: dict[str, tuple[str, str]]) -> None:
        now = time.monotonic()
        for host in [host for host, (_thread, end) in running.items() if end <= now]:
            thread, _end = running.pop(host)
            self._stuck[host] = thread
            # The next look gets a connection of its own; this one is left to the thread that hangs in it.
            stale = self._connections.pop(host)
            threading.Thread(target=_quietly, args=(stale.reset,), daemon=True).start()
            found[host] = ("", f"it did not answer within {self._within:g} s")

    def _one(self, host: str, command: str, put: Callable[[tuple[str, tuple[str, str]]], None]) -> None:
        connection = self._connections[host]
        try:
            if self._reads and not connection.has_pipelining:
                raise ValueError(f"a command reads nothing over the connection plugin {connection.transport}")
            connection._play_context.no_log = self._no_log or bool(self._task.no_log)
            wrapped = self._wrapped(connection, command)
            rc, out, err = connection.exec_command(wrapped, in_data=self._reads, sudoable=True)
        except Exception as exc:  # whatever a connection plugin raises, the node did not answer
            put((host, ("", cut(exc, 300) or type(exc).__name__)))
            return
        text = out.decode("utf-8", "replace").replace("\r\n", "\n")
        problem = "" if rc == 0 else f"rc {rc}: {tail(err.strip(), 300)}"
        put((host, (text, problem)))

    def _wrapped(self, connection: Any, command: str) -> str:
        """As the base class of all actions wraps a command."""
        if _becomes_another(connection):
            command = connection.become.build_become_command(command, connection._shell)
        if connection.allow_executable:
            executable = connection._play_context.executable or connection._shell.executable or "/bin/sh"
            command = f"{executable} -c {shlex.quote(command)}"
        return command

    def _connection(self, host: str) -> Any:
        if host not in self._connections:
            self._connections[host] = self._made(host)
        return self._connections[host]

    def _made(self, host: str) -> Any:
        known = Variables(self._action, self._variables, host)
        context = self._context(known, host)
        name = str(known.get("ansible_connection") or self._task.connection or C.DEFAULT_TRANSPORT)
        connection = connection_loader.get("ssh" if name == "smart" else name, context)
        if connection is None:
            raise ValueError(f"the connection plugin {name!r} was not found")
        connection.set_become_plugin(self._become(known))
        keys = {**self._task.dump_attrs(), "timeout": context.timeout}
        del keys["retries"]
        if context.password:
            keys["password"] = context.password
        _configure(connection, "connection", known, keys)
        if self._connect is not None and connection.has_option("timeout"):
            connection.set_option("timeout", min(int(connection.get_option("timeout")), self._connect))
        _configure(connection._shell, "shell", known, keys)
        if connection.become is not None:
            if context.become_pass:
                keys["become_pass"] = context.become_pass
            _configure(connection.become, "become", known, keys)
        return connection

    def _context(self, known: Variables, host: str) -> PlayContext:
        """Made anew: that of this task holds the passwords, the shell and more of the one host that runs it."""
        context = PlayContext(passwords=self._asked, connection_lockfd=self._action._play_context.connection_lockfd)
        for attribute in _KEYWORDS:
            if getattr(self._task, attribute) is not None:
                setattr(context, attribute, getattr(self._task, attribute))
        for attribute, names in C.MAGIC_VARIABLE_MAPPING.items():
            said = next((value for value in map(known.get, names) if value is not None), None)
            if said is not None:
                setattr(context, attribute, said)
        context.post_validate(templar=known.templar)
        context.remote_addr = context.remote_addr or host
        return context

    def _become(self, known: Variables) -> Any:
        said = known.get("ansible_become")
        if not (self._task.become if said is None else boolean(said)):
            return None
        method = str(known.get("ansible_become_method") or self._task.become_method)
        plugin = become_loader.get(method)
        if plugin is None:
            raise ValueError(f"the become plugin {method!r} was not found")
        return plugin


def _asked(action: ActionBase, variables: Mapping[str, Any]) -> dict[str, str]:
    """The passwords that were given to the run itself, with ``-k`` and ``-K``.

    The host that runs the task has its own in the same place. Where it has one, that is handed to nobody.
    """
    task, context = action._task, action._play_context
    own = (variables.get("ansible_delegated_vars") or {}).get(task.delegate_to, variables)
    become = getattr(action._connection, "become", None)
    options = C.config.get_configuration_definitions("become", become._load_name) if become else {}
    of_plugin = [one["name"] for one in options.get("become_pass", {}).get("vars", ())]
    names = C.MAGIC_VARIABLE_MAPPING
    given = {
        "conn_pass": "" if any(name in own for name in names["password"]) else context.password,
        "become_pass": "" if any(name in own for name in (*names["become_pass"], *of_plugin)) else context.become_pass,
    }
    return {key: value for key, value in given.items() if value}


def _becomes_another(connection: Any) -> bool:
    """As for any task: who logged in as the wanted user runs no sudo, unless the site says so."""
    if connection.become is None:
        return False
    try:
        login = connection.get_option("remote_user")
    except KeyError:  # a connection without that option
        login = connection.default_user or connection._play_context.remote_user
    wanted = connection.become.get_option("become_user", playcontext=connection._play_context)
    return bool(C.BECOME_ALLOW_SAME_USER) or wanted != login or not (wanted or login)


def _configure(plugin: Any, kind: str, known: Variables, keys: Mapping[str, Any]) -> None:
    names: Sequence[str] = C.config.get_plugin_vars(kind, plugin._load_name)
    values = {name: known.get(name) for name in names}
    plugin.set_options(
        task_keys=dict(keys), var_options={name: value for name, value in values.items() if value is not None}
    )


def _quietly(function: Callable[[], Any]) -> None:
    try:
        function()
    except Exception:  # it was hanging anyway
        return
