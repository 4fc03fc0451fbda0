"""Every licence is known and allowed, and each exception from the permissive ones has its reason and is there."""

from importlib import metadata

import pytest

from deploy.supply import bundled, licences, lock_file

LOCKED = sorted(
    {name for file in lock_file.LOCKS.glob("*.txt") if file.stem != "vllm" for name in lock_file.read(file.stem)}
)


@pytest.mark.parametrize("name", LOCKED)
def test_every_locked_distribution_may_be_stood_on(name):
    expression = licences.licence_of(name)
    assert licences.parts(expression), f"{expression} is no SPDX expression"
    assert licences.parts(expression) <= licences.PERMISSIVE | licences.EXCEPTIONS.keys(), "look at it, then name it"


def test_what_distributions_carry_may_be_stood_on():
    for name in LOCKED:
        for thing in bundled.carried_by(name):
            assert licences.parts(thing.licence) <= licences.PERMISSIVE | licences.EXCEPTIONS.keys(), (name, thing)


def test_each_exception_is_needed():
    there = {part for name in LOCKED for part in licences.parts(licences.licence_of(name))}
    there |= {part for name in LOCKED for thing in bundled.carried_by(name) for part in licences.parts(thing.licence)}
    assert licences.EXCEPTIONS.keys() <= there


def test_what_is_known_is_locked():
    assert licences.KNOWN.keys() <= set(LOCKED)
    assert bundled.NATIVE.keys() | bundled.SCRIPTS.keys() <= set(LOCKED)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("MIT", {"MIT"}),
        ("MIT OR (Apache-2.0 AND BSD-3-Clause)", {"MIT", "Apache-2.0", "BSD-3-Clause"}),
        ("Apache-2.0 WITH LLVM-exception", {"Apache-2.0 WITH LLVM-exception"}),
        ("BSD", set()),
        ("", set()),
        ("AGPL-3.0-only", {"AGPL-3.0-only"}),
    ],
)
def test_parts(expression, found):
    assert licences.parts(expression) == found


class Told:
    """Metadata of a distribution as importlib tells it."""

    def __init__(self, **fields):
        self._fields = {name.replace("_", "-"): values for name, values in fields.items()}

    def __contains__(self, name):
        return name in self._fields

    def __getitem__(self, name):
        return self._fields[name][0]

    def get_all(self, name):
        return self._fields.get(name)


MIT, APACHE = "License :: OSI Approved :: MIT License", "License :: OSI Approved :: Apache Software License"
BSD = "License :: OSI Approved :: BSD License"


@pytest.mark.parametrize(
    ("told", "licence"),
    [
        (Told(License_Expression=["ISC"], Classifier=[MIT]), "ISC"),
        (Told(Classifier=[MIT], License=["whatever"]), "MIT"),
        (Told(Classifier=[BSD], License=["BSD-3-Clause"]), "BSD-3-Clause"),
        (Told(License=["MIT"]), "MIT"),
        (Told(Classifier=[MIT, APACHE]), None),  # Both, or the choice?
        (Told(Classifier=[BSD], License=["BSD"]), None),
        (Told(), None),
    ],
)
def test_what_a_distribution_says(told, licence, monkeypatch):
    monkeypatch.setattr(metadata, "metadata", lambda name: told)
    if licence:
        assert licences.licence_of("some-thing") == licence
    else:
        with pytest.raises(licences.UnknownLicence, match=r"some-thing says .*KNOWN"):
            licences.licence_of("some-thing")


def test_what_is_not_installed_is_told():
    with pytest.raises(licences.UnknownLicence, match=r"no-such-thing is not installed here.*KNOWN"):
        licences.licence_of("no-such-thing")
