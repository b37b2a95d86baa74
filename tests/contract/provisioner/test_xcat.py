# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT: what its commands say is not believed, what people wrote there stays, and one command serves a batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import recorded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    NotOurs,
    Refused,
    WrongMachine,
)
from calls import Line, await_all, deployed, lead, ready, watch_all
from sites import BMC_PASSWORD
from xcat_commands.management import Answer, Management, of_image

DISK = "whole-disk"


@pytest.fixture
def site(xcat_site: Any) -> Iterator[Any]:
    yield xcat_site
    management = xcat_site.management
    management.has_master = management.has_bootloader = management.has_dhcp = management.tells_of_power = True
    management.groups.clear()
    management.unpacked.clear()
    management.stubborn.clear()
    management.locked_out.clear()


def other_node(site: Any) -> dict[str, Any]:
    """Ready, with an image that is installed on its disk."""
    return {**ready(site), "image": site.image("1", DISK)}


# -- the recorded xCAT -------------------------------------------------------------------------------------------------


def conversations(text: str) -> list[tuple[str, str, str, int]]:
    """Command, what it printed, its errors, its exit status, in their order."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        head, _newline, rest = part.partition("\n")
        lines = rest.split("\n")
        code = next(int(line.strip()[3:]) for line in lines if line.startswith("  rc="))
        said = lines[: lines.index(f"  rc={code}")]
        err = "".join(line[9:] + "\n" for line in said if line.startswith("[stderr] "))
        out = "".join(line + "\n" for line in said if not line.startswith("[stderr] "))
        found.append((head, out, err, code))
    return found


#: What the server of these tests does not have, since the driver never asks it.
_LEFT_OUT = ("nodestat",)


def test_the_server_of_these_tests_says_what_the_recorded_one_said() -> None:
    """Texts, streams and exit statuses, from the same beginning, command by command."""
    text = (recorded.demanded("provisioners/xcat", "cli_*.txt") / "cli_2.18.2_measured.txt").read_text(encoding="utf-8")
    there = Management()
    there.has_master = there.has_bootloader = False
    node = "arch=x86_64 bmcpassword=b bmcusername=a groups=all,gpu ip=10.1.0.1 mac=aa:bb:cc:00:00:01 mgt=ipmi"
    there.run(["mkdef", "-t", "node", "n001", *f"{node} netboot=grub2 os=ubuntu24.04 profile=compute".split(" ")])
    compared = 0
    for command, *told in conversations(text):
        argv = command.split(" ")
        if argv[0] in _LEFT_OUT:
            continue
        answer = there.run(argv)
        compared += 1
        assert [answer.out.rstrip("\n"), answer.err.rstrip("\n"), answer.code] == [
            str(told[0]).rstrip("\n"),
            str(told[1]).rstrip("\n"),
            told[2],
        ], command
    assert compared > 20


# -- what it says is not believed --------------------------------------------------------------------------------------


def test_an_order_that_exits_with_0_and_does_nothing_is_refused_and_given_anew(site: Any) -> None:
    """``site.master is not set!`` is all that it says."""
    options = {**ready(site), "image": site.image()}
    site.management.has_master = False
    for _again in range(2):
        with pytest.raises(Refused, match=r"site\.master is not set"):
            lead(options, "deployed")
    assert site.record(options["name"]).get("provmethod") is None, "the next run would wait for it"
    site.management.has_master = True
    assert lead(options, "deployed")["changed"]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]


def test_one_node_of_a_batch_whose_bmc_refuses_is_told_alone(site: Any) -> None:
    batch = [{**ready(site), "image": site.image()} for _number in range(3)]
    bad = batch[1]["name"]
    site.management.locked_out.add(bad)
    site.faults.forget()
    verdicts = await_all(site, "deployed", *batch)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert verdicts[bad]["kind"] == "refused" and "Incorrect password provided" in verdicts[bad]["reason"]
    assert sum(call.what.endswith(" boot") for call in site.faults.writes) == 1, "one command for all of them"
    assert site.record(bad)["currstate"] == "offline" and "provmethod" not in site.record(bad)


def test_a_boot_that_could_not_be_set_up_is_no_deployment(site: Any) -> None:
    """It prints the provisioning method, and sets it, before it finds that it has no template."""
    options = {**ready(site), "image": {**site.image("1", DISK), "named": "broken"}}
    site.management.images["broken"] = of_image("install", template="/nonexist.tmpl")
    with pytest.raises(Refused, match="No ubuntu preseed template"):
        lead(options, "deployed")
    assert "provmethod" not in site.record(options["name"])


def test_one_node_of_a_batch_whose_boot_cannot_be_set_up_is_not_booted(site: Any) -> None:
    """It would come up with the image that it had, and say that it has booted."""
    batch = [{**deployed(site), "image": site.image("2")} for _number in range(3)]
    bad = batch[1]["name"]
    site.management.unpacked.add(bad)
    site.faults.forget()
    before = site.record(bad)["statustime"]
    verdicts = await_all(site, "deployed", *batch)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert verdicts[bad]["kind"] == "refused" and "No packed image" in verdicts[bad]["reason"]
    assert site.record(bad)["statustime"] == before, "it runs on"
    assert not any(call.what.startswith(("rsetboot", "rpower")) and bad in call.what for call in site.faults.writes)
    site.management.unpacked.clear()
    assert await_all(site, "deployed", *batch)["verdicts"][bad]["ok"]


def test_a_stop_that_names_nobody_is_nobodys_order(site: Any) -> None:
    """Its nodes are set up by then, and one that is on anyway is no node that has begun."""
    batch = [{**ready(site), "image": site.image()} for _number in range(2)]
    site.management.power.update({one["name"]: "on" for one in batch})
    site.management.has_dhcp = False
    for verdict in watch_all(site, "deployed", *batch, timeout=1.0)["verdicts"].values():
        assert verdict["kind"] == "refused" and "dhcp server is not running" in verdict["reason"], verdict
    assert site.deployments() == 0
    assert [site.record(one["name"])["currstate"] for one in batch] == ["offline", "offline"]
    site.management.has_dhcp = True
    assert all(one["ok"] for one in await_all(site, "deployed", *batch)["verdicts"].values())


def test_whom_an_order_was_refused_for_installs_nothing_at_its_next_boot(site: Any) -> None:
    options = other_node(site)
    site.management.locked_out.add(options["name"])
    with pytest.raises(Refused, match="Incorrect password") as caught:
        lead(options, "deployed")
    record = site.record(options["name"])
    assert record["currstate"] == "offline" and "provmethod" not in record, "a person's boot would wipe its disk"
    assert options["name"] not in site.management.boot_lines and "still set" not in str(caught.value)


def test_a_node_that_stays_set_to_install_is_told_as_one(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = other_node(site)
    name = options["name"]
    site.management.locked_out.add(name)
    real = Management.run

    def run(self: Management, argv: Any, stdin: str = "") -> Any:
        return real(self, argv, stdin) if argv[-1] != "offline" else Answer(1, "", "Error: The database is locked\n")

    monkeypatch.setattr(Management, "run", run)
    with pytest.raises(Refused, match="Incorrect password") as caught:
        lead(options, "deployed")
    assert (
        f"it is still set to install at its next boot from the network: run nodeset {name} offline" in caught.value.do
    )
    assert site.record(name)["currstate"].startswith("install ")


def test_an_order_that_xcat_keeps_no_news_of_is_known_by_its_note(site: Any) -> None:
    """With ``site.nodestatus`` switched off a boot is no news, and is not ordered again."""
    options = {**ready(site), "image": site.image()}
    site.management.tells_of_power = False
    site.management.stubborn.add(options["name"])
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr(site.management, "tells", lambda name, status: None)
        assert lead(options, "deployed")["provision_state"] == "ordered"
        assert not lead(options, "deployed")["changed"] and site.deployments() == 1


def test_c1_a_node_that_boots_its_old_disk_is_not_deployed(site: Any) -> None:
    options = other_node(site)
    site.management.stubborn.add(options["name"])
    lead(options, "deployed")
    verdict = watch_all(site, "deployed", options, timeout=1.0)["verdicts"][options["name"]]
    assert site.record(options["name"])["status"] == "booted" and not verdict["ok"], verdict
    assert verdict["provision_state"] == "not installed" and "its installation is still to come" in verdict["reason"]


def test_a_status_from_before_the_order_is_no_news_of_it(site: Any) -> None:
    """The old system says once more that it runs, and then the node says nothing."""
    options = deployed(site)
    site.management._boots = lambda name: None  # the BMC says yes, and does nothing
    try:
        assert lead(options, "deployed", redeploy=True)["provision_state"] == "ordered"
        verdict = watch_all(site, "deployed", options, timeout=0.4)["verdicts"][options["name"]]
    finally:
        del site.management._boots
    assert site.record(options["name"])["status"] == "booted"
    assert not verdict["ok"] and "still ordered" in verdict["reason"]


def test_a_node_that_its_statuses_were_switched_off_of_is_not_taken(site: Any) -> None:
    """Nothing tells that it runs, and a boot was set up for it."""
    options = {**ready(site), "image": site.image()}
    site.record(options["name"]).update(provmethod="theirs", currstate="netboot rocky9-x86_64-compute")
    for state in ("deployed", "released"):
        with pytest.raises(NotOurs):
            lead(options, state, known_deployed=False)
    assert site.faults.writes == []


# -- what it must know before ------------------------------------------------------------------------------------------


def test_a_provmethod_of_a_group_is_told_before_anything_is_written_and_any_power_is_touched(site: Any) -> None:
    """A node of it can neither be set up for an image of its own for good, nor be given back."""
    fresh, runs, other = {**ready(site), "image": site.image()}, deployed(site), deployed(site)
    site.management.groups["rack12"] = {"provmethod": "gold-9"}
    for options in (fresh, runs):
        site.record(options["name"])["groups"] += ",rack12"
    site.faults.forget()
    for options, state in ((fresh, "ready"), (fresh, "deployed"), (runs, "released")):
        with pytest.raises(ConfigError, match="group rack12: provmethod=gold-9") as caught:
            lead(options, state)
        assert "chdef -t group rack12 provmethod=" in caught.value.do and site.faults.writes == [], state
    told = await_all(site, "released", runs, other)["verdicts"]
    assert told[runs["name"]]["kind"] == "config" and told[other["name"]]["ok"], told
    assert not any(runs["name"] in call.what or runs["name"].encode() in call.body for call in site.faults.writes)
    assert site.management.power[runs["name"]] == "on"
    unborn = {**site.new(), "image": site.image(), "driver": {**site.extras, "groups": ["rack12"]}}
    with pytest.raises(ConfigError, match="group rack12"):
        lead(unborn, "ready")
    assert unborn["name"] not in site.management.nodes
    site.management.groups.clear()
    assert lead(runs, "released")["changed"] and site.management.power[runs["name"]] == "off"


def test_what_nodeset_needs_of_a_node_is_asked_for_before_it_is_entered(site: Any) -> None:
    """Its loader may be said by a group of it as well."""
    options = {**site.new(), "image": site.image(), "driver": {"groups": "gpu"}}
    with pytest.raises(ConfigError, match="by which loader the node boots"):
        lead(options, "ready")
    assert site.faults.writes == []
    site.management.groups["gpu"] = {"netboot": "grub2"}
    site.management.nodes["another"] = {"groups": "all,gpu"}
    assert lead(options, "ready")["changed"] and lead(options, "deployed")["changed"]
    del site.management.nodes["another"]
    arm = {**site.new(), "image": site.image(), "driver": {"netboot": "grub2", "arch": "aarch64"}}
    with pytest.raises(ConfigError, match="another architecture than the node"):
        lead(arm, "ready")
    assert arm["name"] not in site.management.nodes


# -- whose it is -------------------------------------------------------------------------------------------------------


def test_another_image_that_somebody_ordered_past_us_makes_our_note_void(site: Any) -> None:
    options = {**deployed(site, deploy_id="d-1"), "known_deployed": True, "known_deploy_ids": ["d-1"]}
    assert not lead(options, "deployed")["changed"]
    site.management.run(["rinstall", options["name"], "osimage=gold-2"])
    assert site.faults.writes == []
    told = {**options, "image": site.image("2")}
    with pytest.raises(NotOurs, match="somebody has deployed this node since"):
        lead(told, "deployed")


def test_what_people_wrote_there_stays(site: Any) -> None:
    """Through a whole life, beside our words."""
    options = {**ready(site), "image": site.image("1"), "deploy_id": "d-1"}
    site.record(options["name"]).update(usercomment="ask Anna, x=1", addkcmdline="console=ttyS1 R::nosmt")
    lead(options, "maintenance", run_id="run7", why="reseat")
    assert site.record(options["name"])["usercomment"] == "ask Anna, x=1 gpufleet-hold=gpufleet:run7:reseat"
    lead(options, "serviceable", run_id="run7")
    lead(options, "deployed", annotations={"rack/row": "r 12=a"})
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    record = site.record(options["name"])
    assert record["addkcmdline"] == "console=ttyS1 R::nosmt gpufleet.deploy=d-1"
    assert (
        record["usercomment"].startswith("ask Anna, x=1 ")
        and "gpufleet-mark.rack/row=r%2012%3Da" in record["usercomment"]
    )
    lead(options, "deployed", annotations={"rack/row": ""})
    lead(options, "released")
    assert re.fullmatch(r"ask Anna, x=1 gpufleet-note=order:clear,since:\S+", record["usercomment"])
    assert record["addkcmdline"] == "console=ttyS1 R::nosmt" and record["currstate"] == "offline"
    assert site.management.power[options["name"]] == "off"


def test_an_installed_system_is_to_keep_the_id(site: Any) -> None:
    options = {**other_node(site), "deploy_id": "d-2"}
    lead(options, "deployed")
    assert site.record(options["name"])["addkcmdline"] == "R::gpufleet.deploy=d-2"


def test_a_group_is_no_node(site: Any) -> None:
    options = ready(site)
    site.record(options["name"])["groups"] += ",rack12"
    with pytest.raises(ConfigError, match="more than one node"):
        lead({**site.new(), "name": "rack12"}, "ready")
    with pytest.raises(ConfigError, match="noderange"):
        lead({**site.new(), "name": "gpu[1-4]"}, "ready")
    assert site.faults.writes == []


def test_a_mac_is_found_in_xcats_own_spelling_of_cards(site: Any) -> None:
    options = ready(site)
    site.record(options["name"])["mac"] = f"02:00:00:00:00:01!*NOIP*|{options['boot_mac'].upper()}!eth1"
    assert not lead(options, "enrolled")["changed"]
    with pytest.raises(WrongMachine, match="MAC belongs to"):
        lead({**options, "name": site.new()["name"]}, "ready")


@pytest.mark.parametrize("field", ["mac", "bmc"])
def test_a_node_is_not_given_the_card_or_the_bmc_of_another_one(site: Any, field: str) -> None:
    """By its MAC the neighbour would boot our image, and by its BMC be reset for us."""
    option = {"mac": "boot_mac", "bmc": "bmc_address"}[field]
    theirs, ours, new = ready(site), ready(site), site.new()
    site.faults.forget()
    before = dict(site.record(ours["name"]))
    for options in (ours, new):
        for check_mode in (True, False):
            with pytest.raises(WrongMachine, match=f"{field.upper()} belongs to {theirs['name']}"):
                lead({**options, option: theirs[option]}, "enrolled", check_mode=check_mode)
    assert site.faults.writes == [] and site.record(ours["name"]) == before
    assert new["name"] not in site.management.nodes


# -- how it is asked ---------------------------------------------------------------------------------------------------


def test_the_bmcs_password_is_read_from_the_input_and_stands_in_no_command(site: Any) -> None:
    options = site.new()
    line = Line()
    lead(options, "enrolled", line=line)
    assert site.record(options["name"])["bmcpassword"] == BMC_PASSWORD
    [made] = site.faults.writes
    assert made.what == "mkdef -z" and BMC_PASSWORD.encode() in made.body
    assert not lead(options, "enrolled", update_password="always")["changed"], "it is the same one"
    with pytest.raises(ConfigError, match="bmcpassword cannot be written") as caught:
        lead({**options, "bmc_password": "zz9\nline"}, "enrolled", update_password="always")
    assert "zz9" not in str(caught.value)


def test_where_xcat_is_not_it_is_told_where_to_run(site: Any, tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="lsdef is not on this machine"):
        lead({**site.new(), "provisioner_url": str(tmp_path)}, "enrolled")
    with pytest.raises(ConfigError, match="not their folder"):
        lead({**site.new(), "provisioner_url": "opt/xcat"}, "enrolled")


def test_settings_of_the_node_are_written_and_others_refused(site: Any) -> None:
    options = {**site.new(), "driver": {"groups": "gpu,rack12", "netboot": "grub2", "mgt": "openbmc"}}
    lead(options, "enrolled")
    record = site.record(options["name"])
    assert (record["groups"], record["netboot"], record["mgt"]) == ("all,gpu,rack12", "grub2", "openbmc")
    assert not lead({**options, "driver": {"groups": ["gpu"]}}, "enrolled")["changed"], "others keep theirs"
    with pytest.raises(ConfigError, match="the option driver says postscripts"):
        lead({**options, "driver": {"postscripts": "evil"}}, "enrolled")


@pytest.mark.parametrize(("uefi", "ends"), [(None, " -u"), ("yes", " -u"), (False, ""), ("false", "")])
def test_the_boot_is_by_uefi_unless_said_otherwise(site: Any, uefi: Any, ends: str) -> None:
    options = {**ready(site), "image": site.image()}
    with pytest.raises(ConfigError, match="neither true nor false in driver: uefi"):
        lead({**options, "driver": {"uefi": "y"}}, "deployed")
    options["driver"] = {"uefi": uefi}
    lead(options, "deployed")
    told = [call.what for call in site.faults.writes if "chdef" not in call.what]
    name = options["name"]
    assert told == [f"nodeset {name} osimage=gold-1", f"rsetboot {name} net{ends}", f"rpower {name} boot"]
