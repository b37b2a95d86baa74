# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site's profile demands less of a SKU than the one that is shipped for it. PRIVATE to the collection.

A site may know its machines better than we do. What it lets pass is told, so that nobody takes its pass for ours. A
change of which nobody knows that it demands no less is told as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import SECTIONS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import PROVENANCE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import version_of

#: Keys of which a lower number demands less.
LESS = frozenset(
    {
        *("count", "memory", "memory_bandwidth", "nvlink_links", "nvlink_speed", "power"),
        *("pcie_generation", "pcie_width", "minimum", "least", "seconds", "memory_percent", "filled_percent"),
        *("cpu_threads", "cpu_sockets", "numa_nodes", "memory_gib", "memory_controllers", "gpu_count", "nic_count"),
        *("drive_count", "size_gb", "size_mib", "rate_gbps", "lanes", "of_rate", "to_gib", "steps", "nodes"),
        *("tflops", "samples", "tokens"),
    }
)
#: Keys of which a higher one does.
MORE = frozenset(
    {
        *("limit", "most", "level", "errors", "media_errors", "percentage_used", "corrected_errors"),
        *("machine_checks", "interruptions", "gap_seconds", "interval_seconds", "step_ms", "p99_to_median"),
        *("drift_percent", "tolerance_percent", "skipped", "warm_up"),
    }
)
#: Rows of which each is a demand less.
_SPARES = "ignore_errors"
_SAY_NOTHING = frozenset({*PROVENANCE, "title", "name", "id"})
#: So many are told; a profile of which more is weaker is another one.
MOST = 50
Row = dict[str, Any]
#: Less of its line rate no sound port carries, by whatever tool (docs/how-to/judge-ports.md).
PART = 0.92
#: Where a part of a line rate stands, by the gates that read it.
_RATES: Mapping[str, Sequence[tuple[str, str]]] = {
    "network_gate": [("network", "speeds")],
    "pair_gate": [("network", "speeds"), ("collective", "fabric")],
}


def of_gate(gate: str, shipped: Mapping[str, Any], used: Mapping[str, Any], where: str) -> list[Row]:
    """What one gate demands less, each with ``what``, ``from``, ``to`` and the ``source`` of the new number.

    :param where: the used profile's own place, for what stands nowhere in it.
    """
    sections = SECTIONS.get(gate, ("gpu", gate.removesuffix("_gate")))
    rows = [row for name in sections for row in _of(name, name, _part(shipped, name), _part(used, name), where)]
    told = {row["what"] for row in rows}
    rows += [row for row in _by_own_rule(gate, used, where) if row["what"] not in told]
    return rows[:MOST]


def _by_own_rule(gate: str, used: Mapping[str, Any], where: str) -> Iterator[Row]:
    """What has no figure that is shipped, and a rule of ours."""
    for section, rows in _RATES.get(gate, ()):
        for one in (used.get(section) or {}).get(rows) or []:
            part = one.get("of_rate")
            if part is not None and _lower(PART, part):
                what = f"{section}.{rows}.{_name(one)}.of_rate"
                yield from _row(what, PART, part, str(one.get("source") or where))


def _part(profile: Mapping[str, Any], path: str) -> Any:
    """A section, or what stands in it below a dot; None where there is none."""
    section, _dot, part = path.partition(".")
    found = profile.get(section)
    return found if not part else found.get(part) if isinstance(found, Mapping) else None


def _row(what: str, before: Any, after: Any, source: str) -> Iterator[Row]:
    yield {"what": what, "from": before, "to": after, "source": source}


def _of(what: str, key: str, before: Any, after: Any, source: str) -> Iterator[Row]:
    """One key of a profile. key: by what its number is weighed."""
    if before == after or key in _SAY_NOTHING:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_mapping(what, key, before, after, source)
    elif _rows(before) or _rows(after):
        yield from _of_rows(what, key, before or [], after or [], source)
    elif isinstance(before, Mapping):
        yield from _row(what, "demanded", "left out", source)
    elif not isinstance(after, Mapping):  # a figure more is a demand more
        yield from _of_value(what, key, before, after, source)


def _of_mapping(what: str, key: str, before: Mapping[str, Any], after: Mapping[str, Any], source: str) -> Iterator[Row]:
    told = str(after.get("source") or source)
    for name in dict.fromkeys([*before, *after]):
        inner = (what, key) if name == "value" else (f"{what}.{name}", name)
        yield from _of(*inner, before.get(name), after.get(name), told)


def _rows(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, Mapping) for one in value)


def _name(row: Mapping[str, Any]) -> str:
    return str(next((row[key] for key in ("name", "id", "step") if key in row), ""))


def _of_rows(what: str, key: str, before: Sequence[Any], after: Sequence[Any], source: str) -> Iterator[Row]:
    olds, news = ({_name(one): one for one in rows} for rows in (before, after))
    if key == _SPARES:
        for name in (name for name in news if name not in olds):
            yield from _row(f"{what}.{name}", "demanded", "left out", str(news[name].get("source") or source))
        return
    for name, old in olds.items():
        yield from _of(f"{what}.{name}", name, old, news.get(name), source)


def _of_value(what: str, key: str, before: Any, after: Any, source: str) -> Iterator[Row]:
    if _WEAKER.get(key, _otherwise)(before, after):
        yield from _row(what, before, after, source)


def _otherwise(_before: Any, _after: Any) -> bool:
    """Of the rest nobody knows whether it demands less."""
    return True


def _lower(before: Any, after: Any) -> bool:
    """Where nothing was demanded a number is a demand more, and what is no number demands nothing."""
    return before is not None and not (_number(before) and _number(after) and after >= before)


def _higher(before: Any, after: Any) -> bool:
    return not (_number(before) and _number(after) and after <= before)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _later(before: Any, after: Any) -> bool:
    """From which version on: without one, from the first."""
    return version_of(after or "0") > version_of(before or "0")


def _sooner(before: Any, after: Any) -> bool:
    """Up to which version: without one, for ever."""
    return after is not None and (before is None or version_of(after) < version_of(before))


def _others(before: Any, after: Any) -> bool:
    """Of what is accepted any more than before."""
    known = set(map(str, before if isinstance(before, list) else []))
    return not isinstance(after, list) or bool(set(map(str, after)) - known)


_WEAKER: Mapping[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(LESS, _lower),
    **dict.fromkeys(MORE, _higher),
    "since": _later,
    "until": _sooner,
    "device_ids": _others,
}
