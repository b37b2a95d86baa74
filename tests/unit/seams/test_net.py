# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MACs, addresses and networks: one spelling, and nothing that only looks like one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net

FORMS = ("52:54:00:AB:cd:01", "52-54-00-AB-cd-01", "5254.00ab.cd01", "525400ABcd01", " 52:54:00:ab:cd:01 ")
NONE = (
    "",
    "5254:00ab:cd01",
    "52:54:0:ab:cd:1",
    "52540ABCD01",
    "52:54:00:ab:cd",
    "52:54:00:ab:cd:01:02:03",
    "52-54-00:ab:cd:01",
    "42",
    "node",
)


@pytest.mark.parametrize("form", FORMS)
def test_the_usual_forms_are_one_spelling(form):
    assert net.mac(form) == "52:54:00:ab:cd:01" == net.spelled(form)


@pytest.mark.parametrize("text", NONE)
def test_what_a_spreadsheet_leaves_of_a_mac_is_none(text):
    with pytest.raises(ValueError, match="twelve"):
        net.mac(text)
    assert net.spelled(text) == text.lower()


@pytest.mark.parametrize("text", ["00:00:00:00:00:00", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff"])
def test_a_mac_of_no_single_card_is_refused_and_can_be_compared(text):
    with pytest.raises(ValueError, match="no single card"):
        net.mac(text)
    assert net.spelled(text.upper()) == text


def test_an_infiniband_address_is_compared_as_it_stands():
    assert net.spelled("80:00:02:08:FE:80:00:00:00:00:00:00:b8:3f:d2:03:00:01:02:03").startswith("80:00:02:08:fe")
    assert net.spelled(None) == ""
    assert net.spelled("52.54.00.AB.cd.01") == "52:54:00:ab:cd:01"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1/24", "10.0.0.1"),
        ("10.0.0.0/31", "10.0.0.0"),
        ("10.0.0.7/32", "10.0.0.7"),
        ("2001:DB8::0001/64", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_the_address_of_a_host(text, wanted):
    assert net.host(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.0/24", "of no single one|and of no single"),
        ("10.0.0.255/24", "no single"),
        ("10.0.0.1/33", "length"),
        ("10.0.0.1/", "length"),
        ("10.1", "not an IP"),
        ("167772161", "not an IP"),
        ("10.0.0.01", "not an IP"),
        ("10.0.0.1%eth0", "link-local"),
        ("fe80::1%", "link-local"),
    ],
)
def test_what_is_no_address_of_a_host(text, why):
    with pytest.raises(ValueError, match=why):
        net.host(text)


@pytest.mark.parametrize("text", ["BMC1.Example.com", " bmc1.example.com. ", "bmc1.example.com"])
def test_a_name_is_the_same_with_the_dot_of_the_root_and_in_capitals(text):
    assert net.called(text) == "bmc1.example.com"


def test_without_the_library_it_says_which_and_imports_all_the_same():
    program = (
        "import sys\nsys.modules['netaddr'] = None\n"
        "from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net\n"
        "for ask in (_net.mac, _net.spelled, _net.address):\n"
        "    try:\n        ask('52:54:00:ab:cd:01')\n"
        "    except Exception as exc:\n        print(type(exc).__name__, exc)\n"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.count("MissingLibrary the Python library netaddr is not installed") == 3, done.stdout
