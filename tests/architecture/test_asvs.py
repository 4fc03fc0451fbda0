"""docs/asvs.md: no requirement of OWASP ASVS 4.0.3 at levels 1 and 2 is missing, and what a verdict names exists."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/asvs.md").read_text(encoding="utf-8")
VERDICTS = ("met", "not met", "does not apply")
NAMED = re.compile(r"`([\w./-]+\.(?:py|md|txt|yml|yaml|toml)|\.ci/run)(?:::(\w+))?`")

SECTIONS = {
    "1.1": "1-7", "1.2": "1-4", "1.4": "1 4 5", "1.5": "1-4", "1.6": "1-4", "1.7": "1-2", "1.8": "1-2", "1.9": "1-2",
    "1.10": "1", "1.11": "1-2", "1.12": "2", "1.14": "1-6",
    "2.1": "1-12", "2.2": "1-3", "2.3": "1-3", "2.4": "1-5", "2.5": "1-7", "2.6": "1-3", "2.7": "1-6", "2.8": "1-7",
    "2.9": "1-3", "2.10": "1-4",
    "3.1": "1", "3.2": "1-4", "3.3": "1-4", "3.4": "1-5", "3.5": "1-3", "3.7": "1",
    "4.1": "1-3 5", "4.2": "1-2", "4.3": "1-3",
    "5.1": "1-5", "5.2": "1-8", "5.3": "1-10", "5.4": "1-3", "5.5": "1-4",
    "6.1": "1-3", "6.2": "1-6", "6.3": "1-2", "6.4": "1-2",
    "7.1": "1-4", "7.2": "1-2", "7.3": "1 3 4", "7.4": "1-3",
    "8.1": "1-4", "8.2": "1-3", "8.3": "1-8",
    "9.1": "1-3", "9.2": "1-4",
    "10.2": "1-2", "10.3": "1-3",
    "11.1": "1-8",
    "12.1": "1-3", "12.2": "1", "12.3": "1-6", "12.4": "1-2", "12.5": "1-2", "12.6": "1",
    "13.1": "1 3-5", "13.2": "1-3 5-6", "13.3": "1-2", "13.4": "1-2",
    "14.1": "1-4", "14.2": "1-6", "14.3": "2-3", "14.4": "1-7", "14.5": "1-4",
}  # fmt: skip
"""The standard's requirements by section; the others are of level 3 alone, or were taken out."""
CHAPTERS = {1: 38, 2: 53, 3: 18, 4: 9, 5: 30, 6: 13, 7: 12, 8: 15, 9: 7, 10: 5, 11: 8, 12: 15, 13: 13, 14: 23}


class Row(NamedTuple):
    number: str
    level: str
    asked: str
    verdict: str
    why: str


def rows() -> list[Row]:
    lines = [line for line in DOCUMENT.splitlines() if re.match(r"\| \d+\.\d+\.\d+ ", line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


def wanted() -> list[str]:
    found = []
    for section, numbers in SECTIONS.items():
        for part in numbers.split():
            first, _, last = part.partition("-")
            found += [f"{section}.{number}" for number in range(int(first), int(last or first) + 1)]
    return found


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def problem(path: str, name: str) -> str:
    """What is wrong with what a row names; empty: nothing."""
    if not (ROOT / path).is_file():
        return f"{path} is not there"
    if name and not re.search(rf"^ *(?:async )?def {name}\(", text(path), re.MULTILINE):
        return f"{path} has no {name}"
    return ""


def test_the_list_of_the_standard_is_whole() -> None:
    by_chapter = Counter(int(number.split(".")[0]) for number in wanted())
    assert by_chapter == CHAPTERS and by_chapter.total() == 259


def test_each_requirement_has_one_row_in_the_standards_order() -> None:
    assert [row.number for row in rows()] == wanted()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.number)
def test_a_verdict_is_known_and_shown(row: Row) -> None:
    assert row.verdict in VERDICTS and row.level in ("1", "2") and row.asked
    named = NAMED.findall(row.why)
    assert [found for found in (problem(path, name) for path, name in named) if found] == []
    if row.verdict == "met":
        assert named, "what shows it?"
    else:
        assert len(NAMED.sub("", row.why).split()) >= 2, "why?"


def test_everything_in_code_style_with_a_path_was_looked_at() -> None:
    """So that no path escapes the check by its form."""
    quoted = re.findall(r"`([^`]*/[^`]*)`", "\n".join(row.why for row in rows()))
    missed = [text for text in quoted if not NAMED.fullmatch(f"`{text}`") and text not in ("/", "/metrics")]
    assert missed == []


def test_the_counts_are_the_tables() -> None:
    counts = Counter(row.verdict for row in rows())
    told = dict(re.findall(r"^\| (met|not met|does not apply) \| (\d+) \|$", DOCUMENT, re.MULTILINE))
    assert {verdict: int(number) for verdict, number in told.items()} == counts
