"""Advice on a pool: what binds it, what it carries, which techniques could touch its latency. No effect is promised."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from controlplane.contract.knobs import ChangeClass
from controlplane.contract.step_limits import StepLimit

STEP_WORDS = {60.0: "minute", 300.0: "five minutes"}
"""How wide the steps are that peaks are of, by their seconds."""


class AdviceState(StrEnum):
    """Whether a pool can be advised on."""

    ADVISED = "advised"  # It is busy enough, and was measured often enough.
    IDLE = "idle"  # Engines computed next to never and nobody waited: nothing binds.
    TOO_LITTLE = "too_little"  # Too few requests to tell anything by.


class Technique(StrEnum):
    """What operators reach for."""

    REPLICA = "replica"  # One serving node more.
    MAX_NUM_SEQS = "max_num_seqs"  # More requests at once.
    KV_MEMORY = "kv_memory"  # More memory for the KV cache.
    STEP_BUDGET = "step_budget"  # Chunked prefill: more, or fewer, tokens a step.
    PREFIX_CACHING = "prefix_caching"  # Shared beginnings of prompts computed once.
    SPECULATION = "speculation"  # Draft tokens that are verified together.
    QUANTIZATION = "quantization"  # Smaller weights.


class Fits(StrEnum):
    """Whether a technique is for this pool."""

    APPLIES = "applies"  # It has something to touch, and its nodes can take it.
    NOTHING = "nothing"  # The pool's own figures leave it nothing to touch.
    NOT_HERE = "not_here"  # These nodes cannot be given it.
    UNKNOWN = "unknown"  # A figure is missing: `missing` says what would bring it.


class Figure(BaseModel):
    """A figure of the pool's own telemetry."""

    name: str = Field(description="what it is, in words")
    value: float = Field(description="seconds, a share of 0 to 1, or a number")
    text: str = Field(description="the same for a reader, with its unit")


class BoundSteps(BaseModel):
    """The steps that one limit bound."""

    limit: StepLimit = Field(description="a value of the label `limit` of `step_limit`")
    share: float = Field(description="of all steps, 0 to 1; all shares add up to 1")
    words: str = Field(description="why a step was bound, and what to do")
    lifted_by: str | None = Field(default=None, description="the knob, or option of the engine's start, that lifts it")


class Resource(StrEnum):
    """What of a processor or GPU takes the time of a forward pass."""

    COMPUTE = "compute"  # Its products of numbers.
    BANDWIDTH = "bandwidth"  # Reading weights, keys and values.


class TimeShare(BaseModel):
    """Of the time of all steps, with its interval."""

    share: float = Field(description="0 to 1")
    low: float = Field(description="its interval, lower end; 95 %")
    high: float = Field(description="its upper end")


class AtFullRate(BaseModel):
    """Against what an accelerator's maker says it does at most: less than this no engine takes. Shares of the nodes'
    time, 0 to 1."""

    accelerator: str = Field(description="which: a name of `tailwright hardware`")
    flops_per_byte: float = Field(description="FLOPs that it does while it reads a byte: below it bandwidth binds")
    compute: float = Field(description="share of the time that these FLOPs take at its full rate (MFU)")
    bandwidth: float = Field(description="share of the time that these bytes take at its full bandwidth (MBU)")


class Roofline(BaseModel):
    """FLOPs and bytes of the steps, of one GPU of each node, as engines estimate them by their model's sizes."""

    flops_per_s: float = Field(description="of one GPU, over the nodes' time")
    bytes_per_s: float = Field(description="read and written, of one GPU, over the nodes' time")
    flops_per_byte: float = Field(description="FLOPs for each byte read or written (arithmetic intensity)")
    at_full_rate: AtFullRate | None = Field(
        default=None, description="against the nodes' GPU; null: they tell none, or several, or one that is not known"
    )
    compute: TimeShare | None = Field(
        default=None,
        description="share of steps' time that goes with FLOPs, fitted; null: no node times its forward passes, or too "
        "few windows",
    )
    bandwidth: TimeShare | None = Field(
        default=None,
        description="share of steps' time that goes with bytes, or with what each step launches: both come with steps, "
        "and telemetry does not tell them apart",
    )
    binds: Resource | None = Field(default=None, description="which of the two takes more; null: it cannot be told")
    says: str = Field(description="it in words")


class Binds(BaseModel):
    """What limited the engines' steps. Shares are of steps, not of time."""

    sentence: str = Field(description="what binds, in words; where nothing does, that")
    steps: int = Field(description="steps that told what bound them")
    shares: list[BoundSteps] = Field(default=[], description="the largest first; empty where no node tells")
    queued: bool | None = Field(default=None, description="whether anybody waited at all; null: nobody tells")
    waiting_share: float | None = Field(
        default=None, description="share of the nodes' time in which requests waited, 0 to 1; null: nobody tells"
    )
    busy_share: float | None = Field(
        default=None, description="share of the nodes' time in which steps computed, 0 to 1; null: nobody tells"
    )
    host_share: float | None = Field(
        default=None, description="of steps' time, the share outside of the forward pass, 0 to 1; null: nobody tells"
    )
    roofline: Roofline | None = Field(
        default=None, description="compute against memory bandwidth; null: nobody counts FLOPs and bytes"
    )
    missing: list[str] = Field(default=[], description="what is not known, and what would bring it")


class Rate(BaseModel):
    """Of something that was served, in a second."""

    mean: float = Field(description="over the measured time")
    peak: float | None = Field(default=None, description="in the busiest whole step; null: no step was measured whole")


class AtPeak(BaseModel):
    """Arithmetic on the busiest step: no forecast."""

    times: float = Field(description="so many times the busiest step")
    requests_per_s: float = Field(description="requests in a second")
    prompt_tokens_per_s: float | None = Field(default=None, description="prompt tokens in a second")
    output_tokens_per_s: float | None = Field(default=None, description="output tokens in a second")
    nodes: int = Field(description="nodes that keep each node's load at what it was in the busiest step")
    node_hours_a_day: float = Field(description="of so many nodes")
    in_flight: float | None = Field(
        default=None, description="requests in flight at that rate if end to end stays as it was (Little's law)"
    )
    buffer_nodes: int | None = Field(
        default=None, description="nodes to have ready while another starts; null: nobody has measured a start"
    )
    assumes: list[str] = Field(description="what has to hold for these figures")


class Worksheet(BaseModel):
    """What the pool served, from its telemetry. What nobody tells is null."""

    requests: int = Field(description="requests that ended whole")
    measured_s: float = Field(description="seconds from the first data of the span to the newest")
    step_s: float = Field(description="width of the steps that peaks are of, seconds")
    requests_per_s: Rate = Field(description="requests")
    prompt_tokens_per_s: Rate | None = Field(default=None, description="tokens in")
    output_tokens_per_s: Rate | None = Field(default=None, description="tokens out")
    cached_share: float | None = Field(default=None, description="share of prompt tokens found in the prefix cache")
    nodes: int = Field(description="nodes that served")
    output_tokens_per_node_s: float | None = Field(default=None, description="tokens out of a node in a second")
    node_hours: float = Field(description="of the nodes that served, each for the whole measured time")
    node_hours_per_million: float | None = Field(default=None, description="node hours for a million output tokens")
    ttft_p95_s: float | None = Field(default=None, description="time to first token, p95, seconds")
    ttft_p99_s: float | None = Field(default=None, description="time to first token, p99, seconds")
    waiting_share: float | None = Field(default=None, description="share of the nodes' time in which requests waited")
    cold_start_s: float | None = Field(
        default=None, description="what a restart took on these nodes, warm-up included, the longest mean; seconds"
    )
    steepest_rise: float | None = Field(
        default=None, description="the most that requests a second rose from one step to the next"
    )
    at_peak: AtPeak | None = Field(default=None, description="what `peak` times the busiest step means; null: no peak")


class TechniqueAdvice(BaseModel):
    """One technique, and what the pool's own figures say of it.

    `touches` bounds what it acts on directly: the share of all requests' end-to-end time that it could shorten if it
    worked as well as it possibly can. How much it does shorten, only a trial tells.
    """

    technique: Technique = Field(description="which")
    title: str = Field(description="in words")
    fits: Fits = Field(description="whether it is for this pool")
    touches: float | None = Field(default=None, description="0 to 1; null where a figure is missing")
    formula: str = Field(description="how `touches` is computed, in words; docs/advice.md has the symbols")
    figures: list[Figure] = Field(description="what it was computed from")
    says: str = Field(description="what they say, in sentences")
    knob: str | None = Field(default=None, description="the knob, or option of the engine's start")
    change_class: ChangeClass | None = Field(default=None, description="what a change takes on the hardest node")
    most: int | None = Field(default=None, description="above this the knob cannot go on some node; null: not told")
    missing: list[str] = Field(default=[], description="what is not known, and what would bring it")
    study: str = Field(default="", description="address of the filled-in form of the study that proves it")
    forecast: str = Field(default="", description="address of the twin's forecast, where it can make one")
    proof: str = Field(description="how it is proved, in words")


class MixState(StrEnum):
    """Whether a pool's traffic is still what its configuration was tuned for."""

    ALIKE = "alike"  # Nothing of it has surely moved by more than a little.
    DRIFTED = "drifted"  # Some part has, by its whole interval.
    TOO_LITTLE = "too_little"  # Too few requests, now or then, to tell.


class MixPart(StrEnum):
    """What of a traffic's mix is compared."""

    PROMPTS = "prompts"  # Tokens of a prompt.
    ANSWERS = "answers"  # Tokens of an answer.
    PREFIXES = "prefixes"  # Share of a prompt that one of the 100 requests before it had, too.
    ARRIVALS = "arrivals"  # Seconds between two arrivals at a node.


class PartShift(BaseModel):
    """One part of the mix, then and now."""

    part: MixPart = Field(description="which")
    score: float = Field(
        description="how much likelier a value of now is above one of then than below it, -1 to 1 (Cliff's delta)"
    )
    low: float = Field(description="the score's interval, lower end; 95 % for all parts together")
    high: float = Field(description="its upper end")
    drifted: bool = Field(description="whether the whole interval lies beyond a small effect, 0.147 either way")
    then: float = Field(description="median tokens, or mean share or seconds, of what the study was measured on")
    now: float = Field(description="the same of the newest requests")


class MixAdvice(BaseModel):
    """The pool's newest requests beside the traffic that its last promoted study was measured on."""

    study_id: int = Field(description="the study")
    promoted_at: datetime = Field(description="when its rollout had ended")
    state: MixState = Field(description="whether the traffic is still alike")
    parts: list[PartShift] = Field(default=[], description="what has drifted first, then by score")
    says: str = Field(description="it in a sentence")
    study: str = Field(default="", description="address of the filled-in form of the study to ask for; empty: none")


class Advice(BaseModel):
    """`GET /api/v1/advice`."""

    pool: str = Field(description="the pool")
    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end: the newest data, at the latest")
    state: AdviceState = Field(description="whether it can be advised on")
    because: str = Field(description="why not; of one that can be, how much was measured")
    binds: Binds = Field(description="what limited its steps")
    worksheet: Worksheet = Field(description="what it served, and what a peak means")
    mix: MixAdvice | None = Field(
        default=None,
        description="whether its traffic is still what it was tuned for; null: no study was promoted that kept its own",
    )
    techniques: list[TechniqueAdvice] = Field(
        default=[], description="those that apply first, by `touches`; empty unless the pool can be advised on"
    )
