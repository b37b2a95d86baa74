# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one entry of a log says over Redfish, what its BMC's clock, and whose log it is."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from fake_bmc.logs import events, iso
from fake_bmc.redfish_server import PASSWORD

from .test_log import SEL, asked, log_of, with_log
from .test_redfish import Make


def told(fake: Make, **fields: Any) -> dict[str, Any]:
    (entry,) = asked(with_log(fake, events(1, **fields)))["entries"]
    return dict(entry)


def test_an_entry_as_it_is_told(fake: Make) -> None:
    found = told(fake, Severity="Critical", Message="Uncorrectable ECC", Created="2026-06-11T00:13:00.250-05:00")
    assert found == {
        "id": "1", "at": "2026-06-11T05:13:00Z", "severity": "critical", "message": "Uncorrectable ECC",
        "sensor": "Memory #12", "code": "6fa1ffff",
        "native": {"at": "2026-06-11T00:13:00.250-05:00", "severity": "Critical", "entry_code": "Assert",
                   "uri": f"{SEL}/Entries/1"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"Created": "1970-01-01T00:01:38Z"}, None),
        ({"Created": "9999-12-31T23:59:59+00:00"}, None),
        ({"Created": "0000-00-00T00:00:00Z"}, None),
        ({"Created": "Pre-Init"}, None),
        ({"Created": "2026-06-11T00:13:00"}, None),
        ({"Created": None}, None),
        ({"Created": 1780000000}, None),
        (
            {"EventTimestamp": "2021-02-16T18:14:21+00:00", "Created": "2022-03-09T20:02:22+00:00"},
            "2021-02-16T18:14:21Z",
        ),
        ({"EventTimestamp": "0000-00-00T00:00:00Z", "Created": "2022-03-09T20:02:22Z"}, "2022-03-09T20:02:22Z"),
        ({"Created": "2016-12-31T23:59:60Z"}, "2016-12-31T23:59:59Z"),
    ],
)
def test_a_time_that_no_clock_showed_is_none_and_is_told_as_it_was_said(fake: Make, fields: Any, at: Any) -> None:
    found = told(fake, **fields)
    said = found["native"]["at"]
    assert found["at"] == at
    assert said in ("", *fields.values()) and (said or not isinstance(fields["Created"], str))


@pytest.mark.parametrize(
    ("said", "severity"),
    [
        ("OK", "ok"),
        ("warning", "warning"),
        ("Critical", "critical"),
        (None, "unknown"),
        ("Fatal", "unknown"),
        (3, "unknown"),
    ],
)
def test_how_bad_it_is_in_one_vocabulary(fake: Make, said: Any, severity: str) -> None:
    assert told(fake, Severity=said)["severity"] == severity


def test_words_that_older_bmcs_tell_as_lists(fake: Make) -> None:
    found = told(fake, SensorType=[{"Member": "Battery"}], EntryCode=[{"Member": "Deassert"}], SensorNumber=104)
    assert (found["sensor"], found["native"]["entry_code"]) == ("Battery #104", "Deassert")


def test_an_event_without_words_is_told_by_its_id(fake: Make) -> None:
    found = told(fake, Message=None, MessageId="iLOEvents.3.7.ServerReset", MessageArgs=["On", 3])
    assert found["message"] == "iLOEvents.3.7.ServerReset(On, 3)"


def test_what_an_event_is_about_where_it_names_no_sensor(fake: Make) -> None:
    where = {"OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/HGX_GPU_SXM_1"}}
    found = told(fake, SensorType=None, SensorNumber=None, Links=where, MessageId=None, OemLogEntryCode="DMTF0264")
    assert (found["sensor"], found["code"]) == ("/redfish/v1/Chassis/HGX_GPU_SXM_1", "DMTF0264")


def test_a_message_is_cut_and_no_secret_with_it(fake: Make) -> None:
    keep_secret(PASSWORD)
    for before in range(1000 - len(PASSWORD), 1000, 4):
        found = told(fake, Message=f"{'_' * before}{PASSWORD}{'_' * 5000}", SensorType=PASSWORD, MessageId=PASSWORD)
        assert len(found["message"]) <= 1000 and PASSWORD[:3] not in json.dumps(found)


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [-3600, 0, 7200])
@pytest.mark.parametrize("by_log", [True, False])
def test_by_how_much_the_bmcs_clock_is_wrong(fake: Make, ahead: int, by_log: bool) -> None:
    rig = with_log(fake, events(1))
    said = iso(time.time() + ahead)
    log_of(rig).fields["DateTime"] = said if by_log else None
    rig.bmc.logs.manager_fields["DateTime"] = iso(time.time() + 99999) if by_log else said
    found = asked(rig)
    assert found["bmc_time"] == found["bmc_time_said"] == said
    assert abs(found["bmc_ahead"] - ahead) < 10


@pytest.mark.parametrize("said", ["1970-01-01T00:01:38Z", "Pre-Init", "", None, 7])
def test_a_clock_that_was_never_set_is_none(fake: Make, said: Any) -> None:
    found = asked(with_log(fake, events(1), DateTime=said))
    assert found["bmc_time"] is None and found["bmc_ahead"] is None
    assert found["bmc_time_said"] == str(said or "")


# -- the machine -------------------------------------------------------------------------------------------------------


def test_whose_log_it_is_stands_beside_it(fake: Make) -> None:
    rig = with_log(fake, events(1))
    assert asked(rig, serial="SN0001")["machine"]["agrees"] == ["serial", "system_uuid"]
    assert asked(rig, serial="OTHER")["machine"]["contradicts"] == ["serial"]
