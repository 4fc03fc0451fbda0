"""`make outdated` asks pip's package index for newer versions of everything in deploy/locks, and prints them: advice.

Newer is a release with a wheel that was not withdrawn and that Python 3.11 may have; one before its time counts only
where such a one is locked. Ends with 0 where the index
was asked about everything, whether or not something is newer; with 1, said aloud, where it could not be.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from ssl import SSLContext, create_default_context
from typing import Any, Final, NamedTuple

import httpx
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from deploy.supply.audit import GROUPS, PROBE, NoAnswer
from deploy.supply.lock_file import read

PYTHON: Final = "3.11"
"""What the locks are made for."""
PYPI: Final = "https://pypi.org/simple"
_ACCEPT: Final = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_TIMEOUT_S: Final = 20.0
_AT_ONCE: Final = 4


class Locked(NamedTuple):
    """A locked distribution. lock: which locks have it, as their files are called."""

    name: str
    version: Version
    lock: str


@dataclass(frozen=True)
class File:
    """What an index says of one file. requires_python: as its release says it; empty: nothing."""

    name: str
    withdrawn: bool
    requires_python: str


def main() -> int:
    index = configured_index()
    with httpx.Client(verify=_trust(), timeout=_TIMEOUT_S, follow_redirects=True) as client:
        try:
            newest(client, index, PROBE)
        except NoAnswer as error:
            print(f"outdated SKIPPED: no package index; nothing is known of newer versions.\n  {index}: {error}")
            return 1
        everything = locked()
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            answers = list(threads.map(lambda one: _answer(client, index, one), everything))
    newer = [(one, found) for one, found in zip(everything, answers, strict=True) if isinstance(found, Version)]
    rows = [(one.name, str(one.version), str(found), one.lock) for one, found in newer if found > one.version]
    if rows:
        print(table([("name", "locked", "newest", "lock"), *rows]))
    unknown = [(one, found) for one, found in zip(everything, answers, strict=True) if isinstance(found, str)]
    for one, reason in unknown:
        print(f"UNKNOWN {one.name}: {reason}")
    print(f"outdated: {len(rows)} of {len(everything)} locked versions have a newer one at {index}")
    return 1 if unknown else 0


def locked() -> list[Locked]:
    """Everything in the locks by name; a distribution twice where two groups of locks have two versions of it."""
    found: dict[tuple[str, Version], list[str]] = {}
    for lock in (name for group in GROUPS for name in group):
        for name, pin in read(lock).items():
            found.setdefault((name, Version(pin.version)), []).append(lock)
    return [Locked(name, version, ", ".join(locks)) for (name, version), locks in sorted(found.items())]


def configured_index() -> str:
    """The address of the index that pip would ask first. Raises CalledProcessError where pip cannot tell."""
    if index := os.environ.get("PIP_INDEX_URL"):
        return index.rstrip("/")
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"^global\.index-url='(.+)'$", listed, re.MULTILINE)
    return found[1].rstrip("/") if found else PYPI


def newest(client: httpx.Client, index: str, name: str, *, early: bool = False) -> Version:
    """The newest version of a distribution that could be locked; early: also before its time. Raises NoAnswer."""
    try:
        answer = client.get(f"{index}/{name}/", headers={"accept": _ACCEPT})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswer(str(error) or type(error).__name__) from error
    if answer.status_code != 200:
        raise NoAnswer(f"{answer.status_code} {answer.reason_phrase}")
    kind = answer.headers.get("content-type", "")
    try:
        files = files_of_json(answer.json()) if "json" in kind else files_of_html(answer.text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoAnswer(f"an answer that is no list of files ({type(error).__name__})") from error
    versions = [version for file in files if (version := usable(file, early=early)) is not None]
    if not versions:
        raise NoAnswer("no wheel that could be locked")
    return max(versions)


def usable(file: File, *, early: bool = False) -> Version | None:
    """The version of a wheel that could be locked; None for any other file. early: also one before its time."""
    if file.withdrawn or not file.name.endswith(".whl"):
        return None
    try:
        _, version, _, _ = parse_wheel_filename(file.name)
        fits = SpecifierSet(file.requires_python).contains(PYTHON)
    except (InvalidWheelFilename, InvalidSpecifier):
        return None
    return version if fits and (early or not version.is_prerelease) else None


def files_of_json(answer: Any) -> list[File]:
    """The files of a project by PEP 691. Raises KeyError, TypeError or AttributeError for another answer."""
    return [
        File(told["filename"], bool(told.get("yanked")), told.get("requires-python") or "") for told in answer["files"]
    ]


def files_of_html(text: str) -> list[File]:
    """The files of a project by PEP 503."""
    found = _Links()
    found.feed(text)
    return found.files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "a" and (address := told.get("href")):
            name = address.split("#")[0].rsplit("/", 1)[-1]
            self.files.append(File(name, "data-yanked" in told, told.get("data-requires-python") or ""))


def table(rows: list[tuple[str, ...]]) -> str:
    """The rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _answer(client: httpx.Client, index: str, one: Locked) -> Version | str:
    """The newest version, or why it is not known."""
    try:
        return newest(client, index, one.name, early=one.version.is_prerelease)
    except NoAnswer as error:
        return str(error)


def _trust() -> SSLContext:
    """The authorities that pip is told of by PIP_CERT, else the machine's."""
    return create_default_context(cafile=os.environ.get("PIP_CERT") or None)


if __name__ == "__main__":
    sys.exit(main())
