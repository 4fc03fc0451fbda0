"""The labels and patterns that alerts are matched by, and selectors of nodes: read from options, and written as people
write them."""

from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.changes.label_selector import Selector, parsed
from controlplane.terminal.assignments import parse_labels
from controlplane.terminal.output.printing import labels_text
from controlplane.terminal.service_connection import fail


def silenced(equal: str, labels: list[str], like: str, patterns: list[str]) -> Silenced:
    """equal, like: the options' names."""
    return Silenced(matchers=once(equal, labels), patterns=once(like, patterns))


def selector_of(option: str, text: str) -> Selector:
    """Leaves with status 2 where it is none, naming the place."""
    try:
        return parsed(text)
    except ValueError as error:
        fail(f"{option}: {error}")


def once(option: str, pairs: list[str]) -> dict[str, str]:
    """Leaves with status 2 where a label has two values, which no alert has."""
    found = parse_labels(option, pairs)
    twice = next((label for label, values in found.items() if len(values) > 1), None)
    if twice is not None:
        fail(f"{option}: {twice} is given twice; make one for each")
    return {label: values[0] for label, values in found.items()}


def matched_text(matched: Silenced) -> str:
    """As people write it: pool=chat node=~gpu-.*"""
    found = [labels_text(matched.matchers)] if matched.matchers else []
    return " ".join([*found, *(f"{label}=~{text}" for label, text in sorted(matched.patterns.items()))])
