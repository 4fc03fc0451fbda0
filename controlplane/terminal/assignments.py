"""Knobs as people write them on a command line: name=value."""

import json
from typing import Any

from controlplane.terminal.service_connection import fail


def parse_assignments(assignments: list[str]) -> dict[str, Any]:
    """["a=1", "b=int8"] to {"a": 1, "b": "int8"}; values are JSON where they can be."""
    knobs: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            fail(f"--set: wants knob=value, got {assignment!r}")
        try:
            knobs[name.strip()] = json.loads(text)
        except ValueError:
            knobs[name.strip()] = text
    return knobs
