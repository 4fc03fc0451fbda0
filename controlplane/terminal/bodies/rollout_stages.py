"""Stages as people write them: `one,10%,50%:pause,all`."""

from controlplane.contract.bodies.rollouts import Stage

PAUSE = ":pause"


def stages_of(text: str) -> list[Stage]:
    """One share a comma: `one` node, a percentage, `all`; `:pause` after it waits there. Raises `ValueError`."""
    return [_stage(part.strip()) for part in text.split(",")]


def _stage(text: str) -> Stage:
    share = text.removesuffix(PAUSE)
    if share in ("one", "all"):
        return Stage(share=0 if share == "one" else 1, pause=text.endswith(PAUSE))
    try:
        percent = float(share.removesuffix("%"))
    except ValueError:
        percent = -1
    if not share.endswith("%") or not 0 <= percent <= 100:
        raise ValueError(f"{text!r} is no stage; write one, 10%, 50%:pause or all")
    return Stage(share=percent / 100, pause=text.endswith(PAUSE))
