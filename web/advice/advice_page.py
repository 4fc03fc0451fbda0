"""Advice: what binds a pool, what it carries and what a peak means, and the techniques worth a trial."""

from collections.abc import Sequence

from controlplane.client import Client
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.advice import STEP_WORDS, Fits, MixPart, Rate, Worksheet
from web.advice.hardware_part import accelerator_of, hardware
from web.frame.format import percent, seconds
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

TIMES = ("1", "2", "3", "5", "10")
"""Peaks that are offered, in times the busiest step."""
USUAL_TIMES = "2"
FITS = {
    Fits.APPLIES: "applies",
    Fits.NOTHING: "nothing to gain",
    Fits.NOT_HERE: "not on these nodes",
    Fits.UNKNOWN: "not known",
}
MIX_PARTS = {
    MixPart.PROMPTS: "Prompt tokens, median",
    MixPart.ANSWERS: "Answer tokens, median",
    MixPart.PREFIXES: "Prompts' repeated share, mean",
    MixPart.ARRIVALS: "Seconds between arrivals at a node, mean",
}
Line = tuple[str, str]
"""What a figure is, and the figure."""


def peak_of(selection: Selection) -> float:
    """Raises `BadRequest` for what is not offered."""
    said = selection.own.get("peak", USUAL_TIMES)
    if said not in TIMES:
        raise BadRequest(f"peak: wants one of {', '.join(TIMES)}", field="peak")
    return float(said)


def advice(client: Client, selection: Selection) -> Context:
    """Of the bar's pool; nothing is asked while there is none."""
    if not selection.pool:
        return {"advice": None}
    found = client.advice(selection.pool, peak=peak_of(selection), **selection.span)
    return {
        "advice": found,
        "served": served(found.worksheet),
        "at_peak": at_peak(found.worksheet),
        "fits": FITS,
        "mix_parts": MIX_PARTS,
        "times": TIMES,
        "said_times": f"{peak_of(selection):g}",
    }


def served(sheet: Worksheet) -> Sequence[Line]:
    """What the pool carried, a line a figure; what nobody tells is an en dash."""
    step = STEP_WORDS.get(sheet.step_s, seconds(sheet.step_s))
    return [
        ("Requests", f"{sheet.requests:,} in {seconds(sheet.measured_s)}"),
        (f"Requests a second: mean, busiest {step}", _rate(sheet.requests_per_s)),
        (f"Tokens in a second: mean, busiest {step}", _rate(sheet.prompt_tokens_per_s)),
        (f"Tokens out a second: mean, busiest {step}", _rate(sheet.output_tokens_per_s)),
        ("Prompt tokens found in the cache", percent(sheet.cached_share, 1)),
        ("Nodes that served", str(sheet.nodes)),
        ("Tokens out of a node in a second", _number(sheet.output_tokens_per_node_s)),
        ("Node hours", _number(sheet.node_hours)),
        ("Node hours for a million tokens out", _number(sheet.node_hours_per_million)),
        ("TTFT p95, p99", f"{seconds(sheet.ttft_p95_s)}, {seconds(sheet.ttft_p99_s)}"),
        ("Time with requests waiting", percent(sheet.waiting_share, 1)),
        ("A restart took", seconds(sheet.cold_start_s)),
    ]


def at_peak(sheet: Worksheet) -> Sequence[Line]:
    """Empty where there is no peak."""
    found = sheet.at_peak
    if found is None:
        return []
    return [
        ("Requests a second", _number(found.requests_per_s)),
        ("Tokens in a second", _number(found.prompt_tokens_per_s)),
        ("Tokens out a second", _number(found.output_tokens_per_s)),
        ("Requests in flight", _number(found.in_flight)),
        ("Nodes, each as loaded as in the busiest step", str(found.nodes)),
        ("Node hours a day", _number(found.node_hours_a_day)),
        ("Nodes ready while another starts", "–" if found.buffer_nodes is None else str(found.buffer_nodes)),
    ]


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else f"{_number(rate.mean)}, {_number(rate.peak)}"


def _number(value: float | None) -> str:
    """Three significant digits; whole from 100 on."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def own(selection: Selection) -> None:
    """Raises `BadRequest` for what is not offered."""
    peak_of(selection)
    accelerator_of(selection)


PAGE = Page(
    "advice",
    "/advice",
    "Advice",
    (Part("advice", advice, every_s=30.0), Part("hardware", hardware, every_s=60.0)),
    section="studies",
    one_pool=True,
    own=own,
)
