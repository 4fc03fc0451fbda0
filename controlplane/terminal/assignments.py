"""What people write on a command line as name=value: knobs and labels."""

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from controlplane.contract.errors import nearest
from controlplane.terminal.service_connection import fail


def parse_assignments(
    assignments: list[str], option: str = "--set", wants: str = "knob=value", known: Sequence[str] | None = None
) -> dict[str, Any]:
    """["a=1", "b=int8"] to {"a": 1, "b": "int8"}; values are JSON where they can be. Leaves with status 2 for what
    `option` does not take, and for a name that is not `known`."""
    knobs: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            fail(f"{option}: wants {wants}, got {assignment!r}")
        if known is not None and name.strip() not in known:
            near = get_close_matches(name.strip().lower(), known, n=1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            fail(f"{option} {assignment}: wants {wants}, of {', '.join(known)}{meant}")
        try:
            knobs[name.strip()] = json.loads(text)
        except ValueError:
            knobs[name.strip()] = text
    return knobs


def parse_labels(option: str, pairs: list[str], known: Sequence[str] | None = None) -> dict[str, list[str]]:
    """["pool=chat", "pool=code"] to {"pool": ["chat", "code"]}. Leaves with status 2 for what is no pair, and for a
    label that is not `known`."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        label, equals, value = pair.partition("=")
        if not equals or not label:
            fail(f"{option}: wants label=value, got {pair!r}")
        if known is not None and label not in known:
            fail(f"{option} {pair}: wants label=value, {nearest(label, list(known))}")
        found.setdefault(label, []).append(value)
    return found
