"""A `Traffic` that is told of while it runs, obeys a control file, and ends by a signal or after its time."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuner.replay.load_generator import Traffic

CONTROL_LOOK_S = 0.5


@dataclass(frozen=True)
class Course:
    """Seconds. `every_s`: between reports; `duration_s`: None until a signal; `drain_s`: for requests in flight at the
    end; `control`: a file of JSON such as {"rate": 6.0, "paused": false}, which may appear, change and vanish."""

    every_s: float = 5.0
    duration_s: float | None = None
    drain_s: float = 10.0
    control: Path | None = None


async def run(traffic: Traffic, course: Course, tell: Callable[[], None]) -> None:
    """Send until SIGINT, SIGTERM or the course's end, then wait for what is in flight. What `tell` raises ends it."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, traffic.stop)
    if course.duration_s is not None:
        loop.call_later(course.duration_s, traffic.stop)
    following = asyncio.create_task(_follow(traffic, course, tell))
    following.add_done_callback(lambda _: traffic.stop())
    await traffic.run(drain_s=course.drain_s)
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following


async def _follow(traffic: Traffic, course: Course, tell: Callable[[], None]) -> None:
    seen, told_at = "", time.monotonic()
    while True:
        await asyncio.sleep(min(CONTROL_LOOK_S, course.every_s))
        text = None if course.control is None else _changed(course.control, seen)
        if text is not None:
            # A half-written file is read again at the next look.
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                traffic.control(json.loads(text))
                seen = text
        if time.monotonic() - told_at >= course.every_s:
            told_at += course.every_s
            tell()


def _changed(control: Path, seen: str) -> str | None:
    """The control file's text, None when it is as it was, or not there."""
    try:
        text = control.read_text()
    except OSError:
        return None
    return None if text == seen else text
