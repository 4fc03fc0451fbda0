"""What a page is made of: parts, each of which is asked for, drawn and kept fresh by itself.

A part is a function from the API and the selection to the context of `templates/parts/NAME.html`. Each page module
makes its `Page`s; `web/dashboard.py` lists them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from controlplane.contract.errors import NotFound
from web.frame.selection import Selection, is_number

Context = dict[str, Any]
Asked = Callable[[Client, Selection], Context]


def always(_: Selection) -> bool:
    return True


@dataclass(frozen=True)
class Part:
    """`name`: its place's, and its template's, unless `template` says another. `title`: of a chart. `every_s`: how
    often it is asked for anew while a browser looks. `when`: whether it is on the page at all.
    """

    name: str
    asked: Asked
    every_s: float = 5.0
    template: str = ""
    title: str = ""
    when: Callable[[Selection], bool] = always

    @property
    def file(self) -> str:
        return f"parts/{self.template or self.name}.html"


@dataclass(frozen=True)
class Page:
    """One page: `templates/pages/NAME.html` with its parts in it, at `path`.

    `path` may hold one variable, whose value reaches the parts as the selection's own parameter. `whole` is what the
    template needs beside its parts; asked once, when the page is opened. `own` reads the page's own parameters, and
    refuses those that are wrong before anything is asked or sent. `key`: a page of the navigation, opened by "g"
    and it; `section`: the name of the one that this page belongs to. A page without `bar` is not about a span of time.
    `any_time`: a list that is cut to a span only where the address says one. `one_pool`: it shows one pool, the first
    unless the address says which.
    """

    name: str
    path: str
    title: str
    parts: tuple[Part, ...] = ()
    section: str = ""
    key: str = ""
    one_pool: bool = False
    own: Callable[[Selection], object] | None = None
    whole: Asked | None = None
    bar: bool = True
    any_time: bool = False
    scripts: tuple[str, ...] = ()
    """Modules of `static/` beside those of every page."""

    def __post_init__(self) -> None:
        assert len({part.name for part in self.parts}) == len(self.parts), f"two parts of {self.name} have one name"

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the variables in its path."""
        return tuple(re.findall(r"{(\w+)(?::\w+)?}", self.path))

    def parts_of(self, selection: Selection) -> list[Part]:
        """Those that it has when it is opened so."""
        return [part for part in self.parts if part.when(selection)]

    def part(self, name: str) -> Part:
        """Raises `NotFound` for one that it has not."""
        for part in self.parts:
            if part.name == name:
                return part
        raise NotFound(f"no part {name[:40]!r} of the page {self.name}", field="part")

    def part_of(self, selection: Selection, name: str) -> Part:
        """Raises `NotFound`, too, for one that the page has not when it is opened so."""
        found = self.part(name)
        if not found.when(selection):
            raise NotFound(f"no part {name[:40]!r} of the page {self.name} as this address has it", field="part")
        return found


@dataclass(frozen=True)
class Pages:
    """All pages by name."""

    by_name: Mapping[str, Page]

    @classmethod
    def of(cls, *pages: Page) -> "Pages":
        found = {page.name: page for page in pages}
        assert len(found) == len(pages), "two pages of one name"
        return cls(found)

    def navigation(self) -> list[Page]:
        """Those that every page links to, in order."""
        return [page for page in self.by_name.values() if page.key]

    def __getitem__(self, name: str) -> Page:
        """Raises `NotFound` for one that there is not."""
        if name not in self.by_name:
            raise NotFound(f"no page {name[:40]!r}", field="page")
        return self.by_name[name]


def number(selection: Selection, name: str) -> int:
    """One of the page's own parameters that is a number. Raises `NotFound` where it is none: it stood in the path."""
    value = selection.own.get(name, "")
    if not is_number(value):
        raise NotFound(f"no {name} {value[:40]!r}", field=name)
    return int(value)
