"""The worlds and the faults that are measured."""

from dataclasses import replace

from benchmarks.detection_measures.fast_forward import WARM_S
from benchmarks.detection_measures.worlds import Fault, Shape

WEEK_S, DAY_S, HOUR_S = 7 * 86400.0, 86400.0, 3600.0

EASY = Shape("easy: util .3, drift of 1 % in an hour", 5.0, slow=((0.01, 3600.0),))
DRIFT = Shape("drift: 4 % in an hour, and in six", 5.0, slow=((0.04, 3600.0), (0.03, 21600.0)))
BUSY = Shape(
    "busy: util .6 at noon, day curve, drift, jumps of 2 %",
    5.0,
    util=0.6,
    depth=0.6,
    slow=((0.03, 1200.0), (0.03, 7200.0)),
    jumps=(0.02, 7200.0),
)
NODES = Shape(
    "nodes: hardware that differs by 15 %, each node with noise of a minute and drift of hours of its own",
    5.0,
    slow=((0.03, 7200.0),),
    apart=((0.03, 60.0), (0.02, 1200.0), (0.03, 7200.0)),
    hardware=0.15,
)
SHAPES = {"easy": EASY, "drift": DRIFT, "busy": BUSY, "nodes": NODES}
NULLS = tuple((name, rate) for name in SHAPES for rate in (5.0, 20.0))
"""Each with its requests a second."""
RATES = (5.0, 20.0, 100.0)

FAULT_S = WARM_S + 1200.0
FAULTS = {
    "all x1.2": Fault(FAULT_S, 1.2),
    "9 % of requests x2": Fault(FAULT_S, 2.0, share=0.09),
    "one node of four x1.5": Fault(FAULT_S, 1.5, node=0),
    "prompts over 2k x1.5": Fault(FAULT_S, 1.5, least_prompt=2049),
    "all x1.5": Fault(FAULT_S, 1.5),
    "creep to x1.5 in an hour": Fault(FAULT_S, 1.5, ramp_s=3600.0),
}
OF_DRAFTS = {
    "no drafts at one node of four": Fault(FAULT_S, 1.0, node=0, no_drafts=True),
    "no drafts anywhere": Fault(FAULT_S, 1.0, no_drafts=True),
}
"""Of time per output token alone."""
GOALS_S = {
    ("all x1.2", 5.0): 180,
    ("all x1.2", 20.0): 60,
    ("all x1.2", 100.0): 45,
    **{("9 % of requests x2", rate): 150 for rate in RATES},
    **{("one node of four x1.5", rate): 150 for rate in RATES},
    **{("prompts over 2k x1.5", rate): 120 for rate in RATES},
}
SMALL = {f"all x{factor:g}": Fault(FAULT_S, factor) for factor in (1.02, 1.05, 1.1)}


def shape(name: str, rate: float) -> Shape:
    return replace(SHAPES[name], rate=rate)
