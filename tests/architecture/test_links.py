"""Every relative link of a guide leads somewhere, to its heading too; what it names of the checkout is there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
PAGES += (ROOT / "deploy").rglob("*.md")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
NAMED = re.compile(r"`((?:controlplane|agents|tuner|web|tests|benchmarks|docs|deploy)/[\w./-]*)(?:::\w+)?`")
"""A file or folder of the checkout, and a test in it."""
BY_PAGE = pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))


@cache
def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


@BY_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / link).resolve() if link else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            wrong.append(f"{link}#{anchor}")
    assert wrong == []


@BY_PAGE
def test_what_it_names_is_there(page: Path) -> None:
    if page.name == "CHANGELOG.md":  # Tells of what was.
        return
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
