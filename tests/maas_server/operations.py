# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be done to a machine, from which status, by whom. A table of operations; each a few lines."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import statuses as s
from . import versions
from .answers import Answer, AnswerError, conflict
from .config import Config, User
from .hardware import BmcError, bmc_of
from .jobs import Jobs
from .params import Form
from .records import KERNELS
from .store import Machine


@dataclass
class Site:
    """What an operation may ask besides its machine."""

    config: Config
    jobs: Jobs

    def series(self) -> list[str]:
        ubuntu = ["ubuntu/jammy", "ubuntu/noble"] if self.config.architectures else []
        custom = [f"custom/{name.rpartition('/')[2]}" for name in self.config.images]
        return ["", *sorted([*custom, *ubuntu])]


Operation = Callable[[Machine, User, Form, Site], Any]


def _available(machine: Machine, user: User, name: str, states: frozenset[int]) -> None:
    _admin(user)
    if machine.status not in states:
        text = f"{name} is not available because of the current state of the node."
        raise AnswerError(Answer.form_error({"__all__": [text]}))


def commission(machine: Machine, user: User, form: Form, site: Site) -> None:
    _available(machine, user, "Commission", s.COMMISSION_FROM)
    for key in ("enable_ssh", "skip_bmc_config", "skip_networking", "skip_storage"):
        form.django_bool(key)
    _scripts(form, "commissioning_scripts", site.config.commissioning_scripts)
    _scripts(form, "testing_scripts", site.config.testing_scripts)
    machine.owner = user.name  # also where it then goes no further
    _reach(machine, site, Answer.text(503, f"No rack controllers can access the BMC of node {machine.hostname}"))
    machine.move(s.COMMISSIONING)
    machine.commissioning_status, machine.status_message = 1, "Performing PXE boot"
    site.jobs.start("commission", machine)


def test(machine: Machine, user: User, form: Form, site: Site) -> None:
    _available(machine, user, "Test", s.TEST_FROM)
    form.django_bool("enable_ssh")
    if form.get("testing_scripts") == "none":
        raise AnswerError(Answer.form_error({"testing_scripts": ["Select a valid choice. none is not available."]}))
    _scripts(form, "testing_scripts", site.config.testing_scripts)
    machine.previous_status = machine.status
    machine.move(s.TESTING)
    machine.testing_status, machine.status_message = 1, "Performing PXE boot"
    site.jobs.start("test", machine)


def override_failed_testing(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.status != s.FAILED_TESTING:
        raise conflict(f"Cannot override testing of a machine that is in the '{s.NAMES[machine.status]}' state.")
    machine.move(s.DEPLOYED if machine.osystem else s.READY)


def deploy(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.status not in (s.READY, s.ALLOCATED):
        raise conflict(f"Can't deploy a machine that is in the '{s.NAMES[machine.status]}' state")
    wanted = form.get("distro_series")
    known = site.series()
    full = next((one for one in known if wanted and wanted in (one, one.rpartition("/")[2])), "")
    if wanted and not full:
        text = f"'{wanted}' is not a valid distro_series.  It should be one of: {', '.join(map(repr, known))}."
        raise AnswerError(Answer.form_error({"distro_series": [text]}))
    ephemeral, sync, kernel = (
        form.string_bool("ephemeral_deploy"),
        form.string_bool("enable_hw_sync"),
        form.get("hwe_kernel"),
    )
    if kernel and kernel not in KERNELS:
        where = f"{full or 'ubuntu/noble'} on {machine.architecture}"
        raise AnswerError(Answer.text(400, f"{kernel} is not available for {where}."))
    least = machine.min_hwe_kernel
    if kernel and least and KERNELS.index(kernel) < KERNELS.index(least):
        text = f"chosen kernel ({kernel}) is older than minimal kernel required by the machine ({least})."
        raise AnswerError(Answer.form_error({"hwe_kernel": [text]}))
    if machine.hostname in site.config.no_rack:  # the whole call is taken back; an allocation before it stays
        raise AnswerError(Answer.text(500, f"Error determining BMC task queue for machine {machine.system_id}"))
    machine.ephemeral_deploy, machine.enable_hw_sync = ephemeral, sync
    # Without a series it is the site's default, whatever the client believes to have sent.
    machine.osystem, _slash, machine.distro_series = (full or "ubuntu/noble").partition("/")
    machine.hwe_kernel = kernel
    machine.user_data = form.get("user_data")
    machine.agent_name = form.get("agent_name", machine.agent_name)
    if machine.status == s.READY:
        machine.move(s.ALLOCATED)
        machine.owner = user.name
    machine.move(s.DEPLOYING)
    machine.netboot = True
    machine.status_message = "Performing PXE boot"
    site.jobs.start("deploy", machine)


def release(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.status in s.RELEASE_IS_NOTHING:
        return
    if machine.status not in s.RELEASE_FROM:
        raise conflict(f"Machine cannot be released in its current state ('{s.NAMES[machine.status]}').")
    erase = _erases(form, site.config)
    if machine.is_dpu:
        _release_dpu(machine, site, erase)
        return
    machine.osystem = machine.distro_series = ""  # whatever becomes of it
    _reach(machine, site, Answer.text(503, f"No rack controllers can access the BMC of node {machine.hostname}"))
    machine.move(s.DISK_ERASING if erase else s.RELEASING)
    machine.annotations, machine.status_message = {}, "Releasing"
    if not erase and machine.power_state == "off":
        machine.job += 1
        site.jobs.released(machine)
        return
    site.jobs.start("erase" if erase else "release", machine)


def _erases(form: Form, config: Config) -> bool:
    how = ("secure_erase", "quick_erase")
    if versions.release_is_a_form(config.version):
        return any(form.django_bool(key) for key in ("erase", *how))
    for key in how:
        form.string_bool(key)
    return form.string_bool("erase")


def _release_dpu(machine: Machine, site: Site, erase: bool) -> None:
    """It is neither erased nor switched off."""
    if erase:
        raise AnswerError(Answer.text(400, "Erasing disk is disabled for DPUs"))
    machine.move(s.RELEASING)
    machine.job += 1
    site.jobs.released(machine, power=machine.power_state)


def rescue_mode(machine: Machine, user: User, form: Form, site: Site) -> None:
    if s.ENTERING_RESCUE_MODE not in s.TRANSITIONS[machine.status]:
        state = s.NAMES[machine.status]
        raise conflict(f"Cannot enter rescue mode: node {machine.system_id} is in state '{state}'.")
    machine.previous_status, machine.owner = machine.status, user.name
    machine.move(s.ENTERING_RESCUE_MODE)
    site.jobs.start("rescue", machine)


def exit_rescue_mode(machine: Machine, user: User, form: Form, site: Site) -> None:
    if s.EXITING_RESCUE_MODE not in s.TRANSITIONS[machine.status]:
        state = s.NAMES[machine.status]
        raise conflict(f"Cannot exit rescue mode: node {machine.system_id} is in state '{state}'.")
    machine.move(s.EXITING_RESCUE_MODE)
    site.jobs.start("exit rescue", machine)


def abort(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.status not in s.ABORT:
        raise conflict(
            f"Cannot abort in current state: node {machine.system_id} is in state {s.NAMES[machine.status]}."
        )
    machine.move(machine.previous_status if machine.status == s.TESTING else s.ABORT[machine.status])
    machine.job += 1
    if machine.status == s.NEW:
        machine.owner = ""


def lock(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.status not in s.LOCKABLE:
        raise conflict("Can't lock, node is not deployed or deploying")
    if machine.locked:
        raise conflict("Machine is already locked")
    machine.locked = True


def unlock(machine: Machine, user: User, form: Form, site: Site) -> None:
    if not machine.locked:
        raise conflict("Machine is not locked")
    machine.locked = False


def mark_broken(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.owner != user.name:
        raise AnswerError(Answer.forbidden())
    if machine.status == s.BROKEN:
        return
    machine.previous_status = machine.status
    machine.status = s.BROKEN  # from any status, whatever the table of ways says
    machine.error_description = form.get("comment")
    if machine.previous_status != s.DEPLOYED:
        machine.owner = ""
    machine.osystem = machine.distro_series = ""
    machine.power_state = "off"
    machine.job += 1


def mark_fixed(machine: Machine, user: User, form: Form, site: Site) -> None:
    _admin(user)
    if machine.status != s.BROKEN:
        raise conflict("Can't mark a non-broken node as 'Ready'.")
    # MAAS calls it Deployed again, although nothing is left of what was deployed.
    machine.move(s.DEPLOYED if machine.previous_status == s.DEPLOYED else s.READY)


def power_on(machine: Machine, user: User, form: Form, site: Site) -> None:
    if not machine.owner:
        raise conflict("Can't start node: it hasn't been allocated.")
    _power(machine, site, "on")


def power_off(machine: Machine, user: User, form: Form, site: Site) -> None:
    _power(machine, site, "off")


def _power(machine: Machine, site: Site, state: str) -> None:
    try:
        bmc_of(machine, site.config).switch(state)
    except BmcError as exc:
        raise AnswerError(Answer.text(500, f"Unable to change the power state: {exc}")) from exc
    machine.power_state = state


def set_workload_annotations(machine: Machine, user: User, form: Form, site: Site) -> None:
    if machine.owner != user.name:
        raise conflict("Cannot set workload annotation: it hasn't been acquired.")
    if any(re.search(r"[\s/:]", key) for key, _value in form.fields):
        raise AnswerError(Answer.text(500, "Invalid character in key name"))
    for key, value in form.fields:
        if value:
            machine.annotations[key] = value
        else:
            machine.annotations.pop(key, None)


def query_power_state(machine: Machine, user: User, form: Form, site: Site) -> dict[str, str]:
    try:
        machine.power_state = bmc_of(machine, site.config).power()
    except BmcError as exc:
        text = f"Unable to retrieve the power state: {exc}"
        raise AnswerError(Answer.text(500, text)) from exc
    return {"state": machine.power_state}


def power_parameters(machine: Machine, user: User, form: Form, site: Site) -> dict[str, str]:
    _admin(user)
    return dict(machine.power_parameters)


def get_token(machine: Machine, user: User, form: Form, site: Site) -> dict[str, str]:
    _admin(user)
    blank = base64.b32encode(machine.system_id.encode()).decode().strip("=")
    return {"token_key": blank, "token_secret": blank, "consumer_key": blank}


def _scripts(form: Form, key: str, known: tuple[str, ...]) -> None:
    odd = [one for one in form.get(key).split(",") if one and one not in (*known, "none")]
    if odd:
        text = f"Select a valid choice. {odd[0]} is not one of the available choices."
        raise AnswerError(Answer.form_error({key: [text]}))


def _reach(machine: Machine, site: Site, no_rack: Answer) -> None:
    """The BMC is asked before the answer; what becomes of the machine where it does not answer stands by then."""
    if machine.hostname in site.config.no_rack:
        raise AnswerError(no_rack)
    try:
        if machine.hostname in site.config.dead:
            raise BmcError(f"{machine.hostname}: no answer")
        bmc_of(machine, site.config).power()
    except BmcError as exc:
        raise AnswerError(Answer.text(500, f"Unable to query the power state: {exc}")) from exc


def _admin(user: User) -> None:
    if not user.admin:
        raise AnswerError(Answer.forbidden())


#: op -> (what it does, refused on a locked machine)
POST: dict[str, tuple[Operation, bool]] = {
    "commission": (commission, True),
    "test": (test, True),
    "override_failed_testing": (override_failed_testing, True),
    "deploy": (deploy, True),
    "release": (release, True),
    "abort": (abort, True),
    "lock": (lock, False),
    "unlock": (unlock, False),
    "rescue_mode": (rescue_mode, True),
    "exit_rescue_mode": (exit_rescue_mode, True),
    "mark_broken": (mark_broken, True),
    "mark_fixed": (mark_fixed, True),
    "power_on": (power_on, True),
    "power_off": (power_off, True),
    "set_workload_annotations": (set_workload_annotations, True),
}
GET: dict[str, Operation] = {
    "query_power_state": query_power_state,
    "power_parameters": power_parameters,
    "get_token": get_token,
}


def may_see(machine: Machine, user: User) -> bool:
    return user.admin or machine.owner in ("", user.name)


def may_touch(machine: Machine, user: User, refused_when_locked: bool) -> None:
    """:raises AnswerError: 403 without a word."""
    if refused_when_locked and machine.locked:
        raise AnswerError(Answer.forbidden())
    if not may_see(machine, user):
        raise AnswerError(Answer.forbidden())
