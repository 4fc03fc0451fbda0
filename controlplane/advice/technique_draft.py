"""What is said of a technique as it is worked out: its figures, what is missing, and the trial that proves it. Pure."""

from dataclasses import dataclass, field

from controlplane.advice.pool_figures import PoolFigures
from controlplane.advice.trial_addresses import KnobPlace, forecast_address, range_words, study_address
from controlplane.contract.knobs import KNOBS
from controlplane.contract.planning.advice import Figure
from controlplane.contract.share_text import share_text

EMBEDDED = "embedded"

BY_STUDY = "A study measures it on a trial node; its winner is judged as a canary"
STAGES_UNTOLD = "how end to end divides into queue, prefill and decode: any agent tells it; of vLLM also from /metrics"
STEPS_UNTOLD = (
    "what bound the steps: embedded engine, or vLLM with Tailwright's plugin 0.2.0 or later (--scheduler-cls)"
)
PREFIX_UNTOLD = "prefix cache queries and hits: vLLM wants --enable-prefix-caching, the embedded engine tells them"
HASHES_UNTOLD = "which prompts begin alike: block hashes of request spans (embedded engine, or vLLM with the plugin)"
GAPS_UNTOLD = "gaps between tokens, one by one: embedded engine, or vLLM with the plugin (/metrics has wide buckets)"
RUNNING_UNTOLD = "how many requests ran: nodes report tailwright.requests.running"
FORMATS_UNTOLD = "which weight formats the nodes can be given: of a managed vLLM, the variants in its node file"
CONFIG_UNTOLD = "what the pool runs: it has no revision in production yet"
PREEMPTED_UNTOLD = "preemptions: told by the embedded engine and by vLLM's /metrics"


@dataclass
class TechniqueDraft:
    """What is said of a technique. touches: None where `missing` says why not."""

    touches: float | None
    formula: str
    says: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    knob: str | None = None
    place: KnobPlace | None = None
    cannot: bool = False
    study: str = ""
    forecast: str = ""
    proof: str = BY_STUDY

    def share(self, name: str, value: float | None) -> None:
        if value is not None:
            self.figures.append(Figure(name=name, value=value, text=share_text(value, 1)))

    def number(self, name: str, value: float | None, unit: str = "") -> None:
        if value is not None:
            self.figures.append(Figure(name=name, value=value, text=f"{value:,.4g} {unit}".strip()))

    def offer_range(self, figures: PoolFigures, objective: str, *, upwards: bool) -> None:
        """The study of the technique's own knob, and the forecast of twice, or half, of what the pool runs."""
        assert self.knob is not None and self.place is not None
        if figures.config is None:
            self.missing.append(CONFIG_UNTOLD)
            return
        runs = int(figures.config.knobs()[self.knob])
        self.number(self.knob, runs, KNOBS[self.knob].unit.partition(",")[0])
        bounds = self.place.above(runs) if upwards else self.place.below(runs)
        if bounds is None:
            self.cannot = True
            self.says.append(f"{self.knob} is {runs}, and these nodes take no {'more' if upwards else 'less'}.")
            return
        self.offer_study(figures.pool, objective, range_words(bounds))
        if twin_knows(figures):
            tried = min(2 * runs, bounds[1]) if upwards else max(runs // 2, bounds[0])
            self.forecast = forecast_address(figures.pool, **{self.knob: str(tried)})

    def offer_study(self, pool: str, objective: str, values: str) -> None:
        """Of the technique's own knob; values: as the form writes them."""
        assert self.knob is not None
        self.study = study_address(pool, objective, {self.knob: values}, f"advice: {self.knob}")


def twin_knows(figures: PoolFigures) -> bool:
    """Whether every service could forecast it: the twin has the embedded engine's scheduler anywhere, vLLM's only where
    it is given one; and it wants a revision in production."""
    return {node.backend for node in figures.serving} == {EMBEDDED} and figures.config is not None
