"""Labels of nodes: what a name and a value may be, and what OpAMP messages call them. Pure.

Guarantee: whoever takes labels in holds them against `problem_of`, so that each can be written in a selector
(`changes.label_selector`) and shown anywhere. Known labels go by OpenTelemetry's names on the wire (its semantic
conventions of cloud and host), any other behind `PREFIX`.
"""

import re
from collections.abc import Mapping

MOST_LABELS = 32
LONGEST_NAME, LONGEST_VALUE = 63, 63

REGION, ZONE, HOST_TYPE, PROCESSOR, GPU = "region", "zone", "host-type", "processor", "gpu"
SAID_BY_NODE = ("node", "pool", "role", "backend")
"""What selectors may name beside labels; nobody sets it as one."""
PREFIX = "tailwright.label."
OTEL = {
    REGION: "cloud.region",
    ZONE: "cloud.availability_zone",
    HOST_TYPE: "host.type",
    PROCESSOR: "host.cpu.model.name",
}

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9])?")
_FOREIGN = re.compile(r"[^A-Za-z0-9._:/]+")


def problem_of(name: str, value: str) -> str | None:
    """What is wrong with a label, beginning with its name, and the mend; None for a right one."""
    shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        return (
            f"{shown!r}: a label's name is 1 to {LONGEST_NAME} of letters, digits and . _ / -, "
            "a letter or digit first and last"
        )
    if name in SAID_BY_NODE:
        return f"{name}: every node says it by itself, selectors may name it: leave out the label"
    known = next((label for label, otel in OTEL.items() if otel == name), None)
    if known is not None:
        return f"{name}: the label is called {known}"
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        return (
            f"{name}: a label's value is 1 to {LONGEST_VALUE} of letters, digits and . _ : / -, "
            f"a letter or digit first and last, got {value[: LONGEST_VALUE + 1]!r}"
        )
    return None


def problem_of_all(labels: Mapping[str, str]) -> str | None:
    """Of the first wrong one, or of too many."""
    if len(labels) > MOST_LABELS:
        return f"at most {MOST_LABELS} labels a node, got {len(labels)}"
    return next((problem for name in labels if (problem := problem_of(name, labels[name])) is not None), None)


def value_of(text: str) -> str:
    """What somebody else calls a thing, as a label's value: "NVIDIA H100 80GB HBM3" is NVIDIA-H100-80GB-HBM3. Empty
    where nothing of it can stand in one."""
    return _FOREIGN.sub("-", text)[:LONGEST_VALUE].strip("._:/-")


def on_the_wire(labels: Mapping[str, str]) -> dict[str, str]:
    """By the name of the OpAMP attribute."""
    return {OTEL.get(name, f"{PREFIX}{name}"): labels[name] for name in sorted(labels)}


def from_the_wire(attributes: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The labels among the attributes of an agent's description, and what is wrong with those left out."""
    said = {name: value_of(attributes[otel]) for name, otel in OTEL.items() if otel in attributes}
    said = {name: value for name, value in said.items() if value}
    said |= {key.removeprefix(PREFIX): value for key, value in attributes.items() if key.startswith(PREFIX)}
    found: dict[str, str] = {}
    problems: list[str] = []
    for name in sorted(said):
        problem = problem_of(name, said[name])
        if problem is not None:
            problems.append(f"labels: {problem}")
        elif len(found) < MOST_LABELS:
            found[name] = said[name]
        else:
            problems.append(f"labels: at most {MOST_LABELS} labels a node: {name} is left out")
            break
    return found, problems
