# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BCM: what cmsh says is not believed, nothing that ends a command is sent, and what people set there stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    ConfigError,
    EvidenceMissing,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.driver import BcmDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.install_log import (
    ENVIRONMENT,
    InstallLog,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Line, deployed, lead, ready, watch_all

FULL = "FULL"


@pytest.fixture
def site(bcm_site: Any) -> Any:
    return bcm_site


def to_deploy(site: Any, **more: Any) -> dict[str, Any]:
    return {**ready(site), "image": site.image(), **more}


def until_up(site: Any, options: dict[str, Any], mode: str = "") -> None:
    site.until(options["name"], f"gold-1 {mode} UP", f"gold-2 {mode} UP")


# -- the proof ---------------------------------------------------------------------------------------------------------


def test_c1_a_node_that_boots_its_old_disk_is_not_deployed(site: Any) -> None:
    """It is up, and its nextinstallmode stands."""
    options = to_deploy(site)
    site.head.stubborn.add(options["name"])
    lead(options, "deployed")
    site.boot(options["name"])
    until_up(site, options, FULL)
    verdict = watch_all(site, "deployed", options, booted=True, timeout=0.3)["verdicts"][options["name"]]
    assert not verdict["ok"] and verdict["provision_state"] == "ordered", verdict


def test_c1_a_nextinstallmode_that_somebody_has_cleared_is_no_installation(site: Any) -> None:
    """The system of before is up, and the installer's log has no line of the node since the order, though it is read
    from that of another node on, which came before."""
    other = to_deploy(site)
    lead(other, "deployed")
    options = deployed(site, deploy_id="d-1")
    again = {**options, "image": site.image("2"), "deploy_id": "d-2"}
    lead(again, "deployed")
    del site.record(options["name"])["nextinstallmode"]
    for check in (True, False):
        told = watch_all(site, "deployed", again, other, booted=True, timeout=0.3, check=check)
        verdict = told["verdicts"][options["name"]]
        assert not verdict["ok"] and verdict["provision_state"] == "not installed", verdict
        assert "by no line of the installer's log" in verdict["reason"]
    assert lead(again, "deployed")["changed"], "the next run orders it anew"


def test_c1_an_installation_in_another_mode_is_none_of_this_order(site: Any) -> None:
    """Somebody chose AUTO in the menu that the machine's console shows, which goes before nextinstallmode."""
    options = to_deploy(site)
    lead(options, "deployed")
    site.record(options["name"])["nextinstallmode"] = "AUTO"
    site.boot(options["name"])
    until_up(site, options)
    verdict = watch_all(site, "deployed", options, booted=True, timeout=0.3)["verdicts"][options["name"]]
    assert not verdict["ok"] and "installed last in mode AUTO" in verdict["reason"], verdict


@pytest.mark.parametrize("log", ["", "rotated"])
def test_a_log_that_cannot_be_read_leaves_the_proof_to_bcm_and_the_node(
    site: Any, log: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a second head node. One that was begun anew since the order is read from its beginning."""
    path = tmp_path / "node-installer"
    monkeypatch.setenv(ENVIRONMENT, str(path) if log else "")
    options = to_deploy(site)
    if log:
        path.write_text("08:00:00 gpu999 node-installer: Installmode is: AUTO\n" * 20, encoding="utf-8")
    lead(options, "deployed")
    if log:
        path.unlink()
        path.write_text(f"09:00:00 {options['name']} node-installer: Installmode is: FULL\n", encoding="utf-8")
    site.boot(options["name"])
    assert watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]["ok"]
    assert not lead(options, "deployed")["changed"], "noted by then, and asked of no log"


def test_a_log_that_was_rotated_before_the_node_was_up_fails_no_installation(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the installer said of it stands in the old file."""
    path = tmp_path / "node-installer"
    path.write_text("", encoding="utf-8")
    monkeypatch.setenv(ENVIRONMENT, str(path))
    log = InstallLog()
    marks = {"gpu001": log.mark()}
    assert log.since(marks) == {"gpu001": []}
    path.rename(tmp_path / "node-installer.1")
    path.write_text("09:00:00 gpu002 node-installer: Installmode is: AUTO\n", encoding="utf-8")
    assert log.since(marks) == {}, "nobody can tell"
    with path.open("a", encoding="utf-8") as file:
        file.write("09:00:00 gpu001 node-installer: Installmode is: FULL\n")
    assert log.since(marks) == {"gpu001": ["Installmode is: FULL"]}
    path.write_text("", encoding="utf-8")
    assert log.since({"gpu001": f"{path.stat().st_ino}.10"}) == {}, "cut short in place"


def test_why_an_installation_failed_the_installers_log_tells(site: Any) -> None:
    options = to_deploy(site)
    site.fails_to_deploy(options)
    verdict = watch_all(site, "deployed", options)["verdicts"][options["name"]]
    assert "the installer says: Installmode is: FULL / No such disk." in verdict["reason"], verdict


def test_no_order_is_given_amid_an_installation(site: Any) -> None:
    """The installer that is at work would empty the nextinstallmode of the later order."""
    options = to_deploy(site)
    lead(options, "deployed")
    site.head.status[options["name"]] = ("INSTALLING", "(provisioning started, waiting for completion)")
    site.faults.forget()
    other = {**options, "image": site.image("2")}
    assert not lead(other, "deployed")["changed"] and not lead(options, "released")["changed"]
    assert site.faults.writes == []


def test_what_was_installed_is_noted_and_outlives_the_next_boot(site: Any) -> None:
    """A node of BCM passes its installer at each boot."""
    options = deployed(site, deploy_id="d-1")
    site.boot(options["name"])
    assert watch_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    until_up(site, options)
    assert not lead(options, "deployed")["changed"] and site.deployments() == 0
    assert b"gpufleet.deploy=d-1" in site.taken_there(options["name"])


# -- what it says is not believed --------------------------------------------------------------------------------------


def test_one_node_of_a_batch_whose_commit_is_not_taken_is_told_alone(site: Any) -> None:
    batch = [to_deploy(site) for _number in range(3)]
    bad = batch[1]["name"]
    site.head.untaken.add(bad)
    site.faults.forget()
    verdicts = watch_all(site, "deployed", *batch)["verdicts"]
    assert [verdicts[one["name"]]["step"] for one in batch] == ["boot", "", "boot"], verdicts
    assert verdicts[bad]["kind"] == "refused" and "Device is being modified" in verdicts[bad]["reason"]
    assert site.deployments() == 3 and len(site.faults.writes) == 1, "one commit for all of them"


def test_half_an_order_is_taken_back(site: Any) -> None:
    """Whoever boots the node would wipe its disk by an order that was refused."""
    options = to_deploy(site)
    site.head.forgets.add("userdefined1")
    with pytest.raises(Refused, match="userdefined1 reads"):
        lead(options, "deployed")
    assert "nextinstallmode" not in site.record(options["name"])


def test_half_an_order_that_cannot_be_taken_back_is_told(site: Any) -> None:
    options = to_deploy(site)
    name = options["name"]
    site.head.forgets.add("userdefined1")
    site.faults.strike_writes("no", 2)
    with pytest.raises(Refused) as caught:
        lead(options, "deployed")
    assert f"cmsh -c 'device; clear {name} nextinstallmode; commit'" in caught.value.do


def test_a_session_that_may_only_read_is_told_by_what_is_not_there(site: Any) -> None:
    options = to_deploy(site)
    site.head.profile = "readonly"
    with pytest.raises(Refused, match="needs another profile"):
        lead(options, "deployed")
    assert "nextinstallmode" not in site.record(options["name"])
    with BcmSession(site, options) as driver:
        [(host, why)] = driver.prerequisites([(Wanted(host=options["name"], name=options["name"]), None)])
    assert host == options["name"] and isinstance(why, Refused) and "may only read" in str(why)


class BcmSession:
    """The driver by itself."""

    def __init__(self, site: Any, options: dict[str, Any]) -> None:
        self.driver = BcmDriver({**site.connection(), "driver": options["driver"]}, Context(node=options["name"]))

    def __enter__(self) -> BcmDriver:
        return self.driver

    def __exit__(self, *told: Any) -> None:
        self.driver.close()


@pytest.mark.parametrize("blank", [False, True])
def test_a_value_is_known_by_the_names_around_it(site: Any, blank: bool) -> None:
    """An empty one may print a line, or none."""
    site.head.prints_blank = blank
    options = deployed(site, deploy_id="d-1")
    assert not lead(options, "deployed")["changed"]
    lead(options, "released")
    assert not lead(options, "released")["changed"]


def test_a_line_that_reads_like_another_answer_spoils_its_own_node_alone(site: Any) -> None:
    """Text with line breaks in it cannot be typed, but an API may set it."""
    good, bad = ready(site), ready(site)
    site.record(bad["name"])["userdefined1"] += f"\n{good['name']}\nFULL\n{bad['name']}"
    with BcmSession(site, good) as driver:
        found = driver.states([good["name"], bad["name"]])
        assert found[good["name"]].native == "defined"
        with pytest.raises(ConfigError, match=f"record of {bad['name']} at BCM cannot be read"):
            driver.next_step(found[bad["name"]], "ready", Wanted(bad["name"], bad["name"]))


def test_a_list_that_was_broken_off_leaves_nobody_out(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not in it would be entered a second time."""
    monkeypatch.setattr(site.head, "profile", "")
    with pytest.raises(BadAnswer, match="list of its nodes"):
        lead(site.new(), "ready")
    assert site.faults.writes == []


# -- whose it is -------------------------------------------------------------------------------------------------------


def test_a_node_that_only_is_down_is_somebodys_until_it_is_known(site: Any) -> None:
    options = site.new()
    site.head.enter(options["name"], mac=options["boot_mac"].upper())
    for state in ("ready", "deployed", "released"):
        with pytest.raises(NotOurs, match="until a person adopts it"):
            lead({**options, "image": site.image(), "known_deployed": False}, state)
    assert site.faults.writes == []
    site.head.nodes[options["name"]]["mac"] = "00:00:00:00:00:00"
    begun = lead({**options, "known_deployed": False, "driver": {}}, "ready")
    assert begun["changed"] and begun["state"] == "ready", "a node that no card was ever seen of has run nothing"
    assert site.record(options["name"])["mac"] == options["boot_mac"].upper()


def test_another_image_that_somebody_set_past_us_makes_our_note_void(site: Any) -> None:
    options = {**deployed(site, deploy_id="d-1"), "known_deployed": True, "known_deploy_ids": ["d-1"]}
    assert not lead(options, "deployed")["changed"]
    site.record(options["name"])["softwareimage"] = "gold-2"
    with pytest.raises(NotOurs, match="somebody has deployed this node since"):
        lead({**options, "image": site.image("2")}, "deployed")


def test_a_node_that_somebody_installs_after_we_gave_it_back_is_theirs(site: Any) -> None:
    """With our own image past us, with another one, or with an order that no boot has carried out yet."""
    ours, same, other, ordered = (deployed(site) for _number in range(4))
    for options in (ours, same, other, ordered):
        lead(options, "released")
        options.update(known_deployed=False, image=site.image("2"))
        assert lead(options, "ready", check=True)["state"] == "ready"
    site.boot(ours["name"])
    site.record(other["name"])["softwareimage"] = "gold-2"
    site.record(ordered["name"])["nextinstallmode"] = FULL
    site.record(same["name"])["nextinstallmode"] = FULL
    site.boot(same["name"])
    until_up(site, same)
    until_up(site, ours)
    for options in (same, other, ordered):
        for state in ("ready", "deployed", "released"):
            with pytest.raises(NotOurs, match="until a person adopts it"):
                lead(options, state)
    assert lead(ours, "deployed")["changed"], "a boot alone brings nothing of anybody's"


def test_an_order_that_stands_moves_to_no_other_card(site: Any) -> None:
    """The machine that has that card would be wiped by it. The serial there is our own word, and proves nothing."""
    options = to_deploy(site)
    lead(options, "deployed")
    site.faults.forget()
    other = {**options, "boot_mac": "52:54:ff:fd" + options["boot_mac"][11:]}
    for state in ("enrolled", "ready", "deployed", "released"):
        with pytest.raises(WrongMachine, match="another machine"):
            lead(other, state)
    assert site.faults.writes == [] and site.record(options["name"])["mac"] == options["boot_mac"].upper()


def test_a_card_comes_into_a_record_with_a_permit_alone(site: Any) -> None:
    """Its installer installs whatever boots by it, in whatever mode: nobody knows what runs there."""
    options, line = site.new(), Line()
    with pytest.raises(EvidenceMissing):
        lead(options, "enrolled", line=Line(refuse=(options["name"],)))
    assert options["name"] not in site.head.nodes and site.faults.writes == []
    lead(options, "enrolled", line=line)
    site.record(options["name"])["mac"] = "00:00:00:00:00:00"
    lead(options, "enrolled", line=line)
    lead(
        {**options, "serial": "S-of-the-new-board", "known_former_serials": [options["serial"]]}, "enrolled", line=line
    )
    assert [hard for _what, hard, _hosts in line.writes] == [True, True, False]


#: What somebody else may do to a node behind our back, by what tells it.
TAKES: dict[str, Callable[[Any, str], None]] = {
    "owner": lambda site, name: site.head.closed.update({name: "(fan dead)"}),
    "hold": lambda site, name: site.record(name).update(userdefined1="gpufleet-hold=gpufleet%3Aother%3Afan"),
    "mac": lambda site, name: site.record(name).update(mac="02:00:00:00:77:77"),
    "softwareimage": lambda site, name: site.record(name).update(softwareimage="gold-2"),
    "nextinstallmode": lambda site, name: site.record(name).update(nextinstallmode="FULL"),
    "order": lambda site, name: site.record(name).update(userdefined1="gpufleet-note=order:theirs,deploy_id:d-77"),
    "installer": lambda site, name: site.head.status.update({name: ("INSTALLING", "")}),
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_who_takes_a_node_while_leave_is_waited_for_keeps_it(site: Any, take: Callable[[Any, str], None]) -> None:
    options = to_deploy(site)

    class Waits(Line):
        def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Any:
            take(site, options["name"])
            return super().before_write(what, destructive=destructive, nodes=nodes)

    site.faults.forget()
    with pytest.raises(Changed, match="taken, held or given back"):
        lead(options, "deployed", line=Waits())
    assert site.faults.writes == []


def test_a_data_node_is_not_wiped(site: Any) -> None:
    """Its installer waits for a person, and whoever said so wants to be asked."""
    site.head.categories["data"] = {"softwareimage": "gold-1", "datanode": "yes"}
    mine, of_category = to_deploy(site), to_deploy(site, driver={})
    site.record(mine["name"])["datanode"] = "yes"
    site.record(of_category["name"])["category"] = "data"
    site.faults.forget()
    for options in (mine, of_category):
        with pytest.raises(Refused, match="data node"):
            lead(options, "deployed")
    assert site.faults.writes == []


# -- what people set there stays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("whence", [False, True])
def test_a_node_has_the_kernel_parameters_of_its_image_beside_the_id_and_again_without_it(
    site: Any, whence: bool
) -> None:
    """Those of its own would hide them. ``get`` may show them as the node's, and say whose they are."""
    site.head.says_whence = whence
    site.head.images["gold-2"]["kernelparameters"] = "net.ifnames=0 hugepages=16"
    options = to_deploy(site, deploy_id="d-1")
    name = options["name"]
    lead(options, "deployed")
    assert site.record(name)["kernelparameters"] == "net.ifnames=0 gpufleet.deploy=d-1"
    lead({**options, "image": site.image("2"), "deploy_id": "d-2"}, "deployed")
    assert site.record(name)["kernelparameters"] == "net.ifnames=0 hugepages=16 gpufleet.deploy=d-2"
    lead(options, "released")
    assert "kernelparameters" not in site.record(name)
    site.head.images["gold-2"]["kernelparameters"] = "net.ifnames=0"


def test_a_category_goes_before_the_image_and_the_node_before_both(site: Any) -> None:
    site.head.categories["gpu"]["kernelparameters"] = "of=category"
    options = to_deploy(site, deploy_id="d-1")
    theirs = to_deploy(site, deploy_id="d-1")
    site.record(theirs["name"])["kernelparameters"] = "of=node console=ttyS1,115200n8"
    for one, base in ((options, "of=category"), (theirs, "of=node console=ttyS1,115200n8")):
        lead(one, "deployed")
        assert site.record(one["name"])["kernelparameters"] == f"{base} gpufleet.deploy=d-1"
        lead(one, "released")
    assert "kernelparameters" not in site.record(options["name"])
    assert site.record(theirs["name"])["kernelparameters"] == "of=node console=ttyS1,115200n8"
    del site.head.categories["gpu"]["kernelparameters"]
