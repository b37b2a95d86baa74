# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's web service, asked in the words of xCAT's commands. PRIVATE to the collection.

It is a program before the same daemon as the commands (``xcatws.cgi``), so that all that is known of these holds for
it. What differs, by its source, and why the code is as it is:

* A write that was taken is answered with nothing, and so is one of which the daemon said no more than a line of
  information, such as ``site.master is not set!``. So what a command would have said of a node is asked for afterwards.
* Where one node of many fails, the answer is 403 with errors alone, and without a word of the others: each is asked for
  by itself then.
* A command that the policy table has no rule for is 401 without a word, like a wrong login.
* It reads a line break in a comment as the next attribute, or refuses the whole list (418). A comment is asked for by
  itself, and what comes with it that is none makes the record one that cannot be read.
* No word of it sets a boot by UEFI (``rsetboot -u``): the driver asks the machine's BMC for its boot.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import asked, bounded_session
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    MissingLibrary,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.command import Answer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import cli, record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer, cause, said

_MISSING: str | None = None
try:
    import requests
except ImportError:
    _MISSING = traceback.format_exc()

_PEER = Peer(
    "xCAT",
    reach="check gpufleet_provisioner_url, the network, and that httpd and xcatd run",
    trust="set gpufleet_provisioner_ca_path to the CA that vouches for it",
    login="check gpufleet_provisioner_username and gpufleet_provisioner_password against xCAT's passwd table",
    setting="gpufleet_provisioner_url",
)
#: Signs of names in an address. Apache, which xCAT's web service runs in, takes a line of 8,190 of a request
#: (LimitRequestLine, as it comes); the attributes that are asked for and the rest of the address come to it.
ADDRESS = 7000
#: A BMC shows its new power some seconds after it took the request.
SHOWN_TIMEOUT, SHOWN_INTERVAL = 20.0, 1.0

_EVERY = "ALLRESOURCES"
#: Its status for a list that it cannot read.
_UNREADABLE = 418
_COMMENT = "usercomment"
#: What a command is told that sets something, as the body of the request.
_BODIES = {"osimage": "osimage", "offline": "state"}
_RESOURCES = {"nodeset": "bootstate", "rsetboot": "nextboot", "rpower": "power", "nodestat": "nodestat"}
_MAKES = {"makehosts": "host", "makedns": "dns", "makedhcp": "dhcp"}


class Web(cli.Cli):
    """Below the address of the service."""

    logs_secrets = True
    asks_for_others = False

    def __init__(self, params: Mapping[str, Any], driver: Driver) -> None:
        if _MISSING:
            raise MissingLibrary("requests", why="it speaks to xCAT's web service", cause=_MISSING)
        require(params, "provisioner_url", "provisioner_username", "provisioner_password", node=driver.ctx.node)
        if params.get(login_host.OPTION):
            raise ConfigError(
                "xCAT's web service is asked from the controller, and a login host is named as well",
                node=driver.ctx.node,
                seen=f"{params['provisioner_url']}, {params[login_host.OPTION]}",
                do=f"leave {login_host.SETTING} out, or name the folder of xCAT's commands on that host in"
                " gpufleet_provisioner_url",
            )
        self._driver = driver
        self._login = {"userName": str(params["provisioner_username"]), "userPW": str(params["provisioner_password"])}
        keep_secret(self._login["userPW"])
        self.address = str(params["provisioner_url"]).rstrip("/")
        self._session = bounded_session(requests.Session())
        ca_path = params.get("provisioner_ca_path")
        self._session.verify = _PEER.verified_by(self.address, ca_path, "gpufleet_provisioner_ca_path")
        _PEER.demand_tls(self.address)
        self._token = ""

    def close(self) -> None:
        self._session.close()

    def run(self, *argv: str, stdin: str = "", nodes: int = 1) -> Answer:
        command = argv[0]
        if command == "lsdef":
            return self._listed(dict(zip(argv[1:-1:2], argv[2:-1:2])))
        if command in ("mkdef", "chdef"):
            return self._recorded(command, _entries(stdin))
        names, words = argv[1].split(","), argv[2:]
        if command in _MAKES:
            return self._made(command, names)
        if words == ("stat",) or command == "nodestat":
            return self._shown(command, names)
        return self._done(command, names, words[0])

    # -- records -----------------------------------------------------------------------------------------------

    def _listed(self, options: Mapping[str, str]) -> Answer:
        """``lsdef -c`` of these objects. Which of all have something (``-w``) it cannot tell: it tells of all."""
        wanted = options["-i"].split(",")
        told: list[str] = []
        wrong: list[str] = []
        for names in _parts(options.get("-o", _EVERY).split(",")):
            for attributes in ([one for one in wanted if one != _COMMENT], [one for one in wanted if one == _COMMENT]):
                if attributes:
                    lines, errors = self._attributes(f"{options['-t']}s", names, attributes)
                    told, wrong = told + lines, wrong + errors
        return Answer(1 if wrong else 0, "".join(f"{one}\n" for one in told), "\n".join(dict.fromkeys(wrong)))

    def _attributes(self, kind: str, names: Sequence[str], attributes: Sequence[str]) -> tuple[list[str], list[str]]:
        found, errors = self._got("lsdef", f"{kind}/{_path(names)}/attrs/{','.join(attributes)}")
        unknown = record.absent("\n".join(errors))
        left = [name for name in names if name not in unknown]
        if unknown & set(names) and left:  # it has not said a word of them
            lines, more = self._attributes(kind, left, attributes)
            return lines, [*(f"Error: {one}" for one in errors), *more]
        lines = []
        for name, fields in found.items():
            if not isinstance(fields, dict):
                return ["no record"], []
            lines += [f"{name}: {key}={fields.get(key) or ''}" for key in attributes]
            # A line of a comment that reads like another attribute: then it is told twice.
            lines += [f"{name}: {key}={fields[key]}" for key in fields if key not in attributes]
        return lines, [f"Error: {one}" for one in errors]

    def _recorded(self, command: str, entries: Mapping[str, Mapping[str, str]]) -> Answer:
        method = {"mkdef": "POST", "chdef": "PUT"}[command]
        wrong: list[str] = []
        for name, fields in entries.items():
            _none, errors = self._got(command, f"nodes/{_path([name])}", method, dict(fields))
            wrong += [f"{name}: Error: {one}" for one in errors]
        return Answer(1 if wrong else 0, "", "\n".join(wrong))

    def _made(self, command: str, names: Sequence[str]) -> Answer:
        """Answered with nothing where it said no error."""
        wrong: list[str] = []
        for part in _parts(names):
            _none, errors = self._got(command, f"nodes/{_path(part)}/{_MAKES[command]}", "POST")
            wrong += _of_nodes(errors, part)
        return Answer(1 if wrong else 0, "", "\n".join(wrong))

    def _looked_up(self, name: str, address: str) -> str:
        """Its words alone tell: the machine of the task has a resolver of its own."""
        return ""

    # -- boots and power ---------------------------------------------------------------------------------------

    def _done(self, command: str, names: Sequence[str], word: str) -> Answer:
        """What a command says of each node is what is there afterwards: it says nothing itself."""
        key, _sign, value = word.partition("=")
        body = {"nodeset": {_BODIES.get(key, key): value or key}, "rsetboot": {"order": word}}
        wrong: list[str] = []
        for part in _parts(names):
            path = f"nodes/{_path(part)}/{_RESOURCES[command]}"
            _none, errors = self._got(command, path, "PUT", body.get(command, {"action": word}))
            wrong += _of_nodes(errors, part)
        failed = cli.failures(Answer(1 if wrong else 0, "", "\n".join(wrong)), names)
        left = [name for name in names if name not in failed]
        told = self._comes(command, left, "off" if word == "off" else "on") if command == "rpower" and left else None
        told = told or (self._shown(command, left) if left else Answer(0, "", ""))
        return Answer(1 if wrong else 0, told.out, "\n".join([*wrong, told.err]).strip())

    def _comes(self, command: str, names: Sequence[str], goal: str) -> Answer | None:
        """What the BMCs show once all of them show that, or None where they do not in time."""
        lines = {f"{name}: {goal}" for name in names}
        try:
            return self._driver.ctx.wait(
                lambda: self._shown(command, names),
                lambda seen: lines <= set(seen.out.splitlines()),
                timeout=SHOWN_TIMEOUT,
                interval=SHOWN_INTERVAL,
                wanted=f"power {goal}",
                seen=cli.said,
            )
        except DeadlineExceeded:
            return None

    def _shown(self, command: str, names: Sequence[str]) -> Answer:
        told: list[str] = []
        wrong: list[str] = []
        for part in _parts(names):
            path = f"nodes/{_path(part)}/{_RESOURCES[command]}"
            found, errors = self._got(command, path)
            if errors and len(part) > 1:
                alone = [self._shown(command, [name]) for name in part]
                told += [one.out for one in alone]
                wrong += [one.err for one in alone if one.err]
                continue
            told += [f"{name}: {_word(fields)}\n" for name, fields in found.items()]
            wrong += _of_nodes(errors, part)
        return Answer(1 if wrong else 0, "".join(told), "\n".join(wrong))

    # -- one request -------------------------------------------------------------------------------------------

    def _got(
        self, command: str, path: str, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], list[str]]:
        """What it tells, and what it says that went wrong.

        :raises AuthFailed: where the login, or its user's rule for this command, is missing.
        """
        if not self._token:
            told = self._answered("POST", "tokens", self._login, "")
            token = (told.get("token") or {}).get("id") if isinstance(told, dict) else None
            if not token:
                raise _PEER.no_json(self.address, "POST tokens", 200, "no token")
            self._token = str(token)
            keep_secret(self._token)
        found = self._answered(method, path, body, command)
        if not isinstance(found, dict):
            raise _PEER.no_list(self.address, f"{method} {path}", found)
        errors = found.get("error")
        return ({}, [str(one) for one in (errors if isinstance(errors, list) else [errors])]) if errors else (found, [])

    def _answered(self, method: str, path: str, body: Mapping[str, Any] | None, command: str) -> Any:
        try:
            answer = asked(
                self._session,
                method,
                f"{self.address}/{path}",
                address=self.address,
                json=body,
                headers={"X-Auth-Token": self._token} if self._token else {},
                timeout=cli.TIMEOUT,
                allow_redirects=False,
            )
        except requests.exceptions.RequestException as exc:
            raise _PEER.unreached(self.address, exc, cause(exc), timeout=cli.TIMEOUT) from exc
        if answer.status_code == 401 and command:
            raise AuthFailed(
                f"xCAT refused us {command}",
                address=self.address,
                wanted=f"a rule of its policy table that allows this user {command}",
                seen="HTTP 401",
                do=f"let it (mkdef -t policy PRIORITY name=USER commands={command} rule=allow), or check the login",
            )
        if answer.status_code == 401:
            raise _PEER.login_refused(self.address)
        return self._read_json(answer, method, path)

    def _read_json(self, answer: Any, method: str, path: str) -> Any:
        code = answer.status_code
        try:
            found = answer.json() if answer.content.strip() else {}
        except (ValueError, RecursionError) as exc:
            if code >= 300:
                raise _PEER.refusal(self.address, method, path, code, said(code, answer.text)) from exc
            kind = answer.headers.get("Content-Type")
            raise _PEER.no_json(self.address, f"{method} {path}", code, answer.text, kind=kind) from exc
        if code == _UNREADABLE:
            raise BadAnswer(
                f"{method} {path}: xCAT's web service cannot read what lsdef prints",
                address=self.address,
                seen=said(code, answer.text),
                details={"status": code},
                do="run lsdef for these nodes by hand, and look for a line break in an attribute",
            )
        if code in (403, 404) and isinstance(found, dict) and found.get("error"):
            return found
        if code >= 300:
            raise _PEER.refusal(self.address, method, path, code, said(code, answer.text))
        return found

    def _read(self, kind: str, names: Sequence[str], of: Sequence[str], *where: str) -> dict[str, dict[str, str]]:
        """:raises BadAnswer: of several, and as that of a record that cannot be read of one alone."""
        try:
            return super()._read(kind, names, of, *where)
        except BadAnswer as exc:
            if kind == "node" and len(names) == 1 and exc.details.get("status") == _UNREADABLE:
                raise cli.Unreadable(
                    "an attribute of a node has a line break, and what comes after it cannot be told from its record",
                    address=self.address,
                    wanted="each attribute of a node in one line",
                    seen=names[0],
                    do=f"take line breaks out of its comment and its other attributes (lsdef {names[0]})",
                ) from exc
            raise


def _parts(names: Sequence[str]) -> Iterator[list[str]]:
    """As many as one address takes."""
    part: list[str] = []
    for name in names:
        if part and sum(map(len, part)) + len(part) + len(name) > ADDRESS:
            yield part
            part = []
        part.append(name)
    if part:
        yield part


def _path(names: Sequence[str]) -> str:
    return ",".join(quote(name, safe="") for name in names)


def _entries(stanzas: str) -> dict[str, dict[str, str]]:
    """What ``mkdef -z`` reads, as :func:`record.stanza` makes it."""
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in stanzas.splitlines()[1:]:
        key, sign, value = line.strip().partition("=")
        if line and not line.startswith(" "):
            name = line[:-1]
            found[name] = {}
        elif sign and key != "objtype":
            found[name][key] = value
    return found


def _of_nodes(errors: Sequence[str], names: Sequence[str]) -> list[str]:
    """As the commands print them: of a node by its name, of all without one."""
    found = []
    for one in errors:
        name, sign, text = one.partition(": ")
        found.append(f"{name}: Error: {text}" if sign and name in names else f"Error: {one}")
    return found


def _word(fields: Any) -> str:
    """Under whatever key it is told: there is one."""
    return str(next(iter(fields.values()), "")) if isinstance(fields, dict) else ""
