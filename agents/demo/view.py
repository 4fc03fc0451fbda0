"""The live progress view: a line a step with its state, time and latest news; plain lines without a terminal."""

import time
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text


@dataclass
class Line:
    title: str
    state: str = "waiting"  # waiting, running, done, failed
    news: str = ""
    began: float = 0.0
    took: float = 0.0
    ended_s: float | None = None  # After the story's beginning.


@dataclass
class View:
    """Name the steps with `plan`; then call `begin`, `say` and `end` for each in turn, inside `with view:`."""

    console: Console = field(default_factory=Console)
    header: str = ""

    def __post_init__(self) -> None:
        self.lines: list[Line] = []
        self._current = -1
        self._started = time.monotonic()
        self._live: Live | None = None

    def plan(self, titles: list[str]) -> None:
        """The steps to come, all waiting."""
        self.lines = [Line(title) for title in titles]

    def __enter__(self) -> "View":
        if self.console.is_terminal:
            self._live = Live(get_renderable=self._draw, console=self.console, refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.refresh()
            self._live.__exit__(None, None, None)

    def announce(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def begin(self, place: int) -> None:
        self._current = place
        line = self.lines[place]
        line.state, line.began = "running", time.monotonic()
        self._plain(f"[{self._elapsed():5.0f} s] {line.title} ...")

    def say(self, news: str) -> None:
        line = self.lines[self._current]
        if news != line.news:
            line.news = news
            self._plain(f"[{self._elapsed():5.0f} s]   {news}")

    def end(self, failed: bool = False) -> None:
        line = self.lines[self._current]
        line.state, line.took = ("failed" if failed else "done"), time.monotonic() - line.began
        line.ended_s = None if failed else self._elapsed()
        self._plain(f"[{self._elapsed():5.0f} s]   {line.state} after {line.took:.0f} s")

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _plain(self, text: str) -> None:
        if self._live is None:
            self.console.print(text, highlight=False, markup=False)

    def _draw(self) -> Group:
        rows: list[Text | Spinner] = [Text(f"{self.header}   {self._elapsed():.0f} s", style="bold")]
        for line in self.lines:
            took = line.took if line.state in {"done", "failed"} else time.monotonic() - line.began
            if line.state == "waiting":
                rows.append(Text(f"  · {line.title}", style="dim"))
            elif line.state == "running":
                text = Text(f"{line.title}  {took:.0f} s  ", style="bold").append(line.news, style="cyan")
                rows.append(Spinner("dots", text))
            else:
                mark, style = ("✓", "green") if line.state == "done" else ("✗", "red")
                rows.append(Text(f"{mark} {line.title}  {took:.0f} s  ", style=style).append(line.news, style="dim"))
        return Group(*rows)
