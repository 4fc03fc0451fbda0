"""`tailwright` whose live streams go by a clock that runs `QUICKER` times as fast, so that nobody waits for them."""

import asyncio
import time
from functools import partial

from controlplane.command.main import main
from web.frame import live
from web.frame.shared_looks import SharedLooks

QUICKER = 10.0


def timer() -> float:
    return QUICKER * time.monotonic()


async def pause(for_s: float) -> None:
    await asyncio.sleep(for_s / QUICKER)


if __name__ == "__main__":
    live.events = partial(live.events, timer=timer, pause=pause)  # type: ignore[assignment]
    live.Together = partial(live.Together, looks=SharedLooks(timer))  # type: ignore[assignment,misc]
    main()
