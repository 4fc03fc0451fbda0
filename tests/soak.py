"""What repeats one experiment at random does so a few times in `make test`, and at full length in `make long`.

Each check is in both: the same test, and the same random numbers, fewer of them. A test that asks `soak` for its count
is marked so; for properties, `shorten` does both to all of them.
"""

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest
from hypothesis import settings

VARIABLE = "TAILWRIGHT_TEST_SOAK"
AT_LENGTH = os.environ.get(VARIABLE) == "1"
LEAST_EXAMPLES = 10
"""Properties that ask for no more keep them all."""
OF_EXAMPLES = 5
"""A run that is not at length tries one of so many of a property's examples."""
T = TypeVar("T")


def soak(few: T, full: T) -> T:
    """How much of it: the first in `make test`, the second in `make long`."""
    return full if AT_LENGTH else few


def shorten(items: Iterable[pytest.Item]) -> None:
    """Fewer examples for properties; those that have more at length are marked `soak`."""
    given: dict[object, settings] = {}
    for item in items:
        test = getattr(item, "obj", None)
        if not getattr(test, "is_hypothesis_test", False):
            continue
        machine = getattr(item, "cls", None)
        function = getattr(test, "__func__", test)
        owner, name = function, "_hypothesis_internal_use_settings"
        if not hasattr(owner, name):  # A state machine's.
            owner, name = machine, "settings"
        full = given.setdefault(owner, getattr(owner, name))
        if full.max_examples <= LEAST_EXAMPLES:
            continue
        item.add_marker("soak")
        if not AT_LENGTH:
            few = max(LEAST_EXAMPLES, full.max_examples // OF_EXAMPLES)
            setattr(owner, name, settings(full, max_examples=few))
