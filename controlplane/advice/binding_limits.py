"""What binds a pool, in words: its steps by what limited them, and whether anybody waited. Pure."""

from controlplane.advice.pool_figures import IDLE_SHARE, PoolFigures
from controlplane.advice.roofline import roofline
from controlplane.contract.metrics import STEP_FORWARD
from controlplane.contract.planning.advice import Binds, BoundSteps
from controlplane.contract.share_text import share_text
from controlplane.contract.step_limits import LIFTED_BY, MEANING, StepLimit

STEPS_UNTOLD = (
    "what bound the steps: the embedded engine tells it, and vLLM by Tailwright's plugin 0.2.0 or later with its "
    "scheduler (--scheduler-cls)"
)
WAITING_UNTOLD = (
    "whether requests waited: nodes report it as tailwright.requests.waiting, of vLLM also without the plugin"
)
BUSY_UNTOLD = "how long steps computed: the embedded engine tells it, vLLM does not"
WORK_UNTOLD = (
    "whether compute or memory bandwidth takes the time: the embedded engine counts FLOPs and bytes, and vLLM where it "
    "was started with --enable-mfu-metrics"
)
UNBOUND = (StepLimit.NO_WORK, StepLimit.DRAFTS)
"""Of a step that computed all that was there."""


def binds(figures: PoolFigures) -> Binds:
    """Each share is of all steps that tell; they add up to 1."""
    steps = sum(figures.limits.values())
    shares = [
        BoundSteps(limit=limit, share=count / steps, words=MEANING[limit], lifted_by=LIFTED_BY.get(limit))
        for limit, count in sorted(figures.limits.items(), key=lambda one: (-one[1], one[0]))
        if count > 0
    ]
    host = host_share(figures)
    found = roofline(figures, host)
    missing = [
        (STEPS_UNTOLD, not shares),
        (WAITING_UNTOLD, figures.waiting is None),
        (BUSY_UNTOLD, figures.busy_share is None),
        (WORK_UNTOLD, found is None),
    ]
    return Binds(
        sentence=_sentence(figures, shares),
        steps=round(steps),
        shares=shares,
        queued=figures.queued,
        waiting_share=figures.waiting_share,
        busy_share=figures.busy_share,
        host_share=host,
        roofline=found,
        missing=[words for words, is_missing in missing if is_missing],
    )


def is_idle(figures: PoolFigures) -> bool:
    """Nobody waited, and its engines computed next to never, as far as they tell."""
    busy = figures.busy_share
    return not figures.requests or (not figures.queued and busy is not None and busy < IDLE_SHARE)


def host_share(figures: PoolFigures) -> float | None:
    """Of steps' time, what was not the forward pass: choosing work, drafting, sampling, handing tokens on."""
    whole = sum(figures.step_parts.values())
    forward = figures.step_parts.get(STEP_FORWARD.short)
    return None if forward is None or whole <= 0 else max(1 - forward / whole, 0.0)


def _sentence(figures: PoolFigures, shares: list[BoundSteps]) -> str:
    if not figures.requests:
        return "Nothing binds: no request ended whole in this time."
    if is_idle(figures):
        return (
            f"Nothing binds: steps computed in {share_text(figures.busy_share or 0.0, 1)} of the time, nobody waited."
        )
    waited = _waited(figures)
    if not shares:
        return f"No node tells what bound its steps; {waited}."
    limiting = [one for one in shares if one.limit not in UNBOUND]
    if not limiting:
        return f"Nothing bound a step: each computed all that was there; {waited}."
    most, together = limiting[0], sum(one.share for one in limiting)
    lifted = f", which {most.lifted_by} lifts" if most.lifted_by else ""
    told = f"{share_text(together, 1)} of the steps were bound, most by {most.limit.value}{lifted}"
    return f"{told}; {waited}."


def _waited(figures: PoolFigures) -> str:
    if figures.queued is None:
        return "no node tells whether requests waited"
    if not figures.queued:
        return "nobody waited"
    share = figures.waiting_share
    if not share:
        return "requests waited within steps, never at the end of a window"
    return f"requests waited in {share_text(share, 1)} of the nodes' time"
