"""No dependency runs code or changes the path at each start of Python, as `.pth` files and `sitecustomize` can."""

import re
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

SITE = {Path(sysconfig.get_path(place)) for place in ("purelib", "platlib")}
ALLOWED = {
    "distutils-precedence.pth": "setuptools",
    "__editable__.tailwright-*.pth": "tailwright",
}
"""File and owner: setuptools' stand-in for distutils, and the checkout itself, installed so that it may be edited."""

DISTUTILS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
    "enabled and __import__('_distutils_hack').add_shim();"
)


def start_files():
    return [
        file
        for site in SITE
        for pattern in ("*.pth", "sitecustomize*", "usercustomize*")
        for file in site.glob(pattern)
    ]


def test_no_dependency_has_a_start_file():
    strangers = [file.name for file in start_files() if not any(file.match(allowed) for allowed in ALLOWED)]
    assert not strangers, "what runs at each start of Python wants to be looked at, then to be named in ALLOWED"


@pytest.mark.slow
def test_the_allowed_ones_are_their_owners():
    owners = {
        file.name: canonicalize_name(distribution.name)
        for distribution in metadata.distributions()
        for file in distribution.files or []
        if file.name.endswith(".pth") and len(file.parts) == 1
    }
    for file in start_files():
        assert [owners[file.name]] == [owner for pattern, owner in ALLOWED.items() if file.match(pattern)]


def test_setuptools_start_file_is_the_known_line():
    for site in SITE:
        for file in site.glob("distutils-precedence.pth"):
            assert file.read_text().strip() == DISTUTILS


def test_the_checkouts_start_file_names_the_checkout_alone():
    for site in SITE:
        for file in site.glob("__editable__.tailwright-*.pth"):
            (line,) = file.read_text().strip().splitlines()
            assert Path(line).is_dir() or re.fullmatch(
                r"import (__editable___tailwright_\w+_finder); \1\.install\(\)", line
            )
