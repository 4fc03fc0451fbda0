"""A lock is read as it was written, and what is no lock is refused with the line that is wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from deploy.supply import lock_file

names = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5})?", fullmatch=True)
versions = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(b[0-9])?", fullmatch=True)
hashes = st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), min_size=1, max_size=4, unique=True)
markers = st.sampled_from(
    ["", ' ; sys_platform == "linux"', ' ; python_version < "3.13" and platform_machine == "x86_64"']
)


@given(st.dictionaries(names, st.tuples(versions, hashes, markers), max_size=6))
def test_what_is_written_is_read(wanted):
    pins = [
        lock_file.Pin(Requirement(f"{name}=={version}{marker}"), tuple(sorted(digests)))
        for name, (version, digests, marker) in wanted.items()
    ]
    read = lock_file.parse("# Its head.\n" + "".join(pin.text() for pin in pins), "x.txt")
    assert list(read.values()) == pins
    assert {name: pin.version for name, pin in read.items()} == {
        name: version for name, (version, *_) in wanted.items()
    }


@pytest.mark.parametrize(
    "line", ["h11==0.16.0", "h11>=0.16 --hash=sha256:00", "h11 --hash=sha256:00", "h11==1,==2 --hash=sha256:00"]
)
def test_a_line_without_version_or_hash_is_refused(line):
    with pytest.raises(lock_file.BadLock, match=r"x\.txt: 'h11.*make lock"):
        lock_file.parse(line, "x.txt")


def test_a_name_twice_is_refused():
    line = "h11==0.16.0 --hash=sha256:00\n"
    with pytest.raises(lock_file.BadLock, match="h11 stands there twice"):
        lock_file.parse(line + line.replace("h11", "H11"), "x.txt")


def test_a_lock_of_no_name():
    with pytest.raises(FileNotFoundError, match=Path("locks", "no-such.txt").as_posix()):
        lock_file.read("no-such")
