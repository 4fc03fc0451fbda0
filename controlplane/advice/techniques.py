"""The checklist of techniques: what each could touch of a pool's latency at most, by the pool's own figures. Pure.

Guarantee: a bound is arithmetic on named figures, never an effect size; where one of them is missing there is no bound,
and what would bring it is said. Symbols, as in docs/advice.md: Q, P and D are the shares of all requests' end-to-end
time that they queued, were prefilled and decoded; each bound lies within 0 and 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from controlplane.advice.pool_figures import PoolFigures
from controlplane.advice.trial_addresses import (
    KnobPlace,
    forecast_address,
    place_of,
    range_words,
    study_address,
)
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    QUANTIZATION,
    ChangeClass,
    Quantization,
    largest,
)
from controlplane.contract.metrics import E2E, ITL, PROMPT_BUCKET_EDGES, PROMPT_BUCKETS, STEP_FORWARD, TPOT, TTFT
from controlplane.contract.planning.advice import Figure, Fits, Technique, TechniqueAdvice
from controlplane.contract.share_text import share_text
from controlplane.contract.step_limits import KV_MEMORY, StepLimit

EMBEDDED = "embedded"
LONGEST_DRAFT = 8
"""A study tries drafts up to this length: beyond it even seven in ten kept leave little."""
LEAST = 0.01
"""What touches less of the end-to-end time than this is nothing to gain."""
BY_STUDY = "a study measures it on a trial node; its winner is judged as a canary"
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
class _Draft:
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


def techniques(figures: PoolFigures) -> list[TechniqueAdvice]:
    """Those that apply first, those of which a figure is missing next; within each by what they touch, most first."""
    order = (Fits.APPLIES, Fits.UNKNOWN, Fits.NOT_HERE, Fits.NOTHING)
    found = [_advice(one, title, of(figures)) for one, (title, of) in CHECKLIST.items()]
    return sorted(found, key=lambda one: (order.index(one.fits), -(one.touches or 0.0)))


def _advice(technique: Technique, title: str, draft: _Draft) -> TechniqueAdvice:
    touches = None if draft.touches is None else min(max(draft.touches, 0.0), 1.0)
    if touches is None:
        fits = Fits.UNKNOWN
    elif touches < LEAST:
        fits = Fits.NOTHING
    else:
        fits = Fits.NOT_HERE if draft.cannot else Fits.APPLIES
    offered = fits in (Fits.APPLIES, Fits.UNKNOWN) and not draft.cannot
    place = draft.place
    return TechniqueAdvice(
        technique=technique,
        title=title,
        fits=fits,
        touches=touches,
        formula=draft.formula,
        figures=draft.figures,
        says=" ".join(draft.says),
        knob=draft.knob,
        change_class=ChangeClass.RESTART if place is None and draft.knob else place.change_class if place else None,
        most=None if place is None else place.most,
        missing=draft.missing,
        study=draft.study if offered else "",
        forecast=draft.forecast if offered else "",
        proof=draft.proof,
    )


def _replica(figures: PoolFigures) -> _Draft:
    queue, prefill, decode, running = figures.queue, figures.prefill, figures.decode, figures.running
    draft = _Draft(None, "Q + (P + D) x share of readings with more than one request running")
    draft.number("serving nodes", figures.nodes)
    draft.share("time with requests waiting", figures.waiting_share)
    draft.share("time computing", figures.busy_share)
    draft.share("queue, of end to end", queue)
    if queue is None or prefill is None or decode is None:
        draft.missing.append(STAGES_UNTOLD)
    elif running is None:
        draft.missing.append(RUNNING_UNTOLD)
    else:
        draft.share("more than one running, of readings", running.share)
        draft.touches = queue + (prefill + decode) * running.share
        draft.says.append(
            f"{share_text(queue, 1)} of end to end was queueing, and in {share_text(running.share, 1)} of the readings "
            "requests shared an engine: no more than that can be had by another node."
        )
    if figures.nodes:
        draft.says.append(f"It costs {share_text(1 / figures.nodes, 1)} more node hours for the same traffic.")
    if _twin_knows(figures):
        draft.forecast = forecast_address(figures.pool, replicas=str(figures.nodes + 1))
        draft.proof = "the twin forecasts it; a node more, compared before and after on Explore, proves it"
    else:
        draft.proof = "a node more, compared before and after on Explore: the twin knows only the embedded engine"
    return draft


def _max_num_seqs(figures: PoolFigures) -> _Draft:
    draft = _Draft(None, "Q x share of max_num_seqs among the steps that left requests waiting", knob=MAX_NUM_SEQS)
    draft.place = place_of(MAX_NUM_SEQS, figures.serving)
    queue, share = figures.queue, figures.queued_by(StepLimit.MAX_NUM_SEQS)
    draft.share("queue, of end to end", queue)
    draft.share("steps at max_num_seqs", figures.limit_share(StepLimit.MAX_NUM_SEQS))
    draft.share("KV blocks in use, peak", None if figures.kv is None else figures.kv.peak)
    if queue is None:
        draft.missing.append(STAGES_UNTOLD)
    if share is None:
        draft.missing.append(STEPS_UNTOLD)
    if queue is not None and share is not None:
        draft.share("of the steps that left requests waiting", share)
        draft.touches = queue * share
        bound = figures.limit_share(StepLimit.MAX_NUM_SEQS) or 0.0
        draft.says.append(
            f"{share_text(bound, 1)} of the steps ran as many requests as may: {share_text(share, 1)} of those that "
            "left others waiting. More at once make each step longer."
        )
    _range(draft, figures, TTFT.short, upwards=True)
    return draft


def _kv_memory(figures: PoolFigures) -> _Draft:
    draft = _Draft(
        None, "Q x share of kv_memory among the steps that left requests waiting + P x preemptions per request"
    )
    draft.knob = KV_MEMORY
    queue, prefill, share = figures.queue, figures.prefill, figures.queued_by(StepLimit.KV_MEMORY)
    preempted = figures.preempted
    draft.share("queue, of end to end", queue)
    draft.share("steps without a free KV block", figures.limit_share(StepLimit.KV_MEMORY))
    draft.share("KV blocks in use, peak", None if figures.kv is None else figures.kv.peak)
    draft.number("preemptions", preempted)
    missing = ((STAGES_UNTOLD, queue is None or prefill is None), (STEPS_UNTOLD, share is None))
    draft.missing = [words for words, is_missing in (*missing, (PREEMPTED_UNTOLD, preempted is None)) if is_missing]
    if queue is not None and prefill is not None and share is not None and preempted is not None:
        each = min(preempted / figures.requests, 1.0) if figures.requests else 0.0
        draft.touches = queue * share + prefill * each
        bound = figures.limit_share(StepLimit.KV_MEMORY) or 0.0
        draft.says.append(
            f"{share_text(bound, 1)} of the steps found no KV block for the next request, and {preempted:,.0f} times a "
            "request was set back and computed again."
        )
        draft.says.append("Prompts that the cache forgot are counted with prefix caching.")
    draft.proof = "no study sets an option of the start: give one node more and compare it with another on Explore"
    return draft


def _step_budget(figures: PoolFigures) -> _Draft:
    draft = _Draft(None, "the larger of (Q + P) x share of steps at the token budget or chunk size, and D x stalls")
    queue, prefill, decode = figures.queue, figures.prefill, figures.decode
    at_budget, at_chunk = figures.limit_share(StepLimit.TOKEN_BUDGET), figures.limit_share(StepLimit.CHUNK)
    draft.knob = PREFILL_CHUNK_SIZE if (at_chunk or 0.0) > (at_budget or 0.0) else MAX_NUM_BATCHED_TOKENS
    draft.place = place_of(draft.knob, figures.serving)
    draft.share("steps at the token budget", at_budget)
    draft.share("steps cut to the chunk size", at_chunk)
    draft.share("stalls: gaps' time beyond the median gap", figures.stalls)
    _prompts_over(draft, figures)
    if queue is None or prefill is None or decode is None:
        draft.missing.append(STAGES_UNTOLD)
    elif at_budget is None or at_chunk is None:
        draft.missing.append(STEPS_UNTOLD)
    else:
        # Gaps that nobody tells one by one leave the other bound, which is then the less of the two at the most.
        more = (queue + prefill) * (at_budget + at_chunk)
        less = decode * (figures.stalls or 0.0)
        draft.touches = max(more, less)
        upwards = more >= less
        draft.says.append(
            f"{share_text(at_budget + at_chunk, 1)} of the steps left prompt tokens undone: a larger step does them "
            "sooner, and holds up who decodes."
        )
        if figures.stalls is not None:
            draft.says.append(
                f"Stalls were {share_text(figures.stalls, 1)} of all gaps' time: a smaller step shortens them."
            )
        _range(draft, figures, TTFT.short if upwards else ITL.short, upwards=upwards)
    if figures.stalls is None:
        draft.missing.append(GAPS_UNTOLD)
    return draft


def _prefix_caching(figures: PoolFigures) -> _Draft:
    draft = _Draft(None, "P x (findable - found) / (1 - found); findable: by a cache without bounds, 1 where not known")
    prefill, found, findable = figures.prefill, figures.cached, figures.findable
    draft.share("prefill, of end to end", prefill)
    draft.share("prompt tokens found", found)
    draft.share("prompt tokens findable", findable)
    if prefill is None:
        draft.missing.append(STAGES_UNTOLD)
    if found is None:
        draft.missing.append(PREFIX_UNTOLD)
    if findable is None:
        draft.missing.append(HASHES_UNTOLD)
    if prefill is not None and found is not None:
        most = 1.0 if findable is None else findable
        left = max(most - found, 0.0) / (1 - found) if found < 1 else 0.0
        draft.touches = prefill * left
        draft.says.append(f"{share_text(found, 1)} of the prompt tokens were found in the cache.")
        if findable is not None:
            draft.says.append(
                f"A cache without bounds, shared by all nodes, would have found {share_text(findable, 1)}: what lies "
                "between is memory, or requests that went to another node than their beginning."
            )
    draft.says.append("What stands first in a prompt, and is the same in many, is found; put what differs last.")
    draft.proof = "no knob: compare the share that is found, and time to first token by cache class, before and after"
    return draft


def _speculation(figures: PoolFigures) -> _Draft:
    draft = _Draft(
        None, "D x K / (K + 1) without drafts; with them D x the larger of a^(K + 1) and (1 - r) K / (K + 1)"
    )
    draft.knob = NUM_SPECULATIVE_TOKENS
    place = draft.place = place_of(NUM_SPECULATIVE_TOKENS, figures.serving)
    decode, kept, config = figures.decode, figures.kept, figures.config
    length = None if config is None else largest(config.num_speculative_tokens)
    draft.share("decode, of end to end", decode)
    draft.share("draft tokens accepted (r)", kept)
    draft.number("draft length (K)", length, "tokens")
    draft.share("steps that rejected drafts", figures.limit_share(StepLimit.DRAFTS))
    if decode is None:
        draft.missing.append(STAGES_UNTOLD)
    if length is None:
        draft.missing.append(CONFIG_UNTOLD)
    longest = min(LONGEST_DRAFT, place.highest)
    draft.cannot = longest == 0
    if decode is not None and length is not None:
        if not length or kept is None:
            most = length or longest or LONGEST_DRAFT
            draft.touches = decode * (most / (most + 1))
            draft.says.append(
                f"No draft was seen: were all of {most} tokens accepted, {most} of {most + 1} decode steps went. How "
                "many are, only drafts on this traffic tell."
            )
        else:
            accepted = acceptance_of(kept, length)
            longer, shorter = accepted ** (length + 1), (1 - kept) * length / (length + 1)
            draft.touches = decode * max(longer, shorter)
            draft.says.append(
                f"{share_text(kept, 1)} of the draft tokens were accepted, as if each were with "
                f"{share_text(accepted, 1)}: longer drafts could save {share_text(longer, 1)} of the decode steps, "
                f"none at all {share_text(shorter, 1)} of what steps compute."
            )
    if draft.cannot:
        draft.says.append(
            "These nodes were started without drafts: a start with a speculative configuration is needed."
        )
    elif longest:
        draft.study = study_address(
            figures.pool, TPOT.short, {NUM_SPECULATIVE_TOKENS: f"0 to {longest}"}, _reason(draft.knob)
        )
    return draft


def acceptance_of(kept: float, length: int) -> float:
    """The chance of one draft token, given those before it, at which drafts of this length keep such a share of their
    tokens: a with (a + a^2 + ... + a^K) / K = kept, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if sum(middle**place for place in range(1, length + 1)) / length < kept:
            low = middle
        else:
            high = middle
    return high


def _quantization(figures: PoolFigures) -> _Draft:
    draft = _Draft(None, "(P + D) x share of the forward pass in steps; all of it where not known", knob=QUANTIZATION)
    draft.place = place_of(QUANTIZATION, figures.serving)
    prefill, decode, whole = figures.prefill, figures.decode, sum(figures.step_parts.values())
    runs = None if figures.config is None else figures.config.quantization.value
    forward = figures.step_parts.get(STEP_FORWARD.short, 0.0) / whole if whole > 0 else None
    draft.share("forward pass, of steps", forward)
    if prefill is None or decode is None:
        draft.missing.append(STAGES_UNTOLD)
    else:
        draft.share("prefill and decode, of end to end", min(prefill + decode, 1.0))
        draft.touches = (prefill + decode) * (1.0 if forward is None else forward)
        draft.says.append(
            f"Prefill and decode were {share_text(min(prefill + decode, 1.0), 1)} of end to end; smaller weights touch "
            "the forward pass alone, and its quality, which a study holds to a limit."
        )
    offered = _formats(figures)
    others = [one for one in offered or [] if one != runs]
    draft.cannot = offered is not None and not others
    if draft.cannot:
        draft.says.append("These nodes name no other weight format that all of them can be given.")
    elif offered is None:
        draft.missing.append(FORMATS_UNTOLD)
    elif runs is None:
        draft.missing.append(CONFIG_UNTOLD)
    else:
        space = {QUANTIZATION: ", ".join([runs, *others])}
        draft.study = study_address(figures.pool, E2E.short, space, _reason(QUANTIZATION))
    return draft


def _formats(figures: PoolFigures) -> list[str] | None:
    """Weight formats that every serving node says it can be given; None where one does not say."""
    told = [node.effective.formats if node.effective else [] for node in figures.serving]
    if not told or not all(told):
        return None
    return [one.value for one in Quantization if all(one.value in formats for formats in told)]


def _range(draft: _Draft, figures: PoolFigures, objective: str, *, upwards: bool) -> None:
    """The study, and the forecast of twice (or half) the value, of the draft's own knob."""
    assert draft.knob is not None and draft.place is not None
    if figures.config is None:
        draft.missing.append(CONFIG_UNTOLD)
        return
    runs = int(figures.config.knobs()[draft.knob])
    draft.number(draft.knob, runs, KNOBS[draft.knob].unit.partition(",")[0])
    bounds = draft.place.above(runs) if upwards else draft.place.below(runs)
    if bounds is None:
        draft.cannot = True
        draft.says.append(f"{draft.knob} is {runs}, and these nodes take no {'more' if upwards else 'less'}.")
        return
    draft.study = study_address(figures.pool, objective, {draft.knob: range_words(bounds)}, _reason(draft.knob))
    if _twin_knows(figures):
        tried = min(2 * runs, bounds[1]) if upwards else max(runs // 2, bounds[0])
        draft.forecast = forecast_address(figures.pool, **{draft.knob: str(tried)})


def _prompts_over(draft: _Draft, figures: PoolFigures) -> None:
    """Requests whose prompts are longer than a step's budget, by the buckets that lie above it whole."""
    config, requests = figures.config, sum(figures.by_prompt.values())
    if config is None or not requests:
        return
    edges = [0, *(edge for edge, _ in PROMPT_BUCKET_EDGES)]
    over = [name for name, from_ in zip(PROMPT_BUCKETS, edges, strict=True) if from_ >= config.max_num_batched_tokens]
    longer = sum(figures.by_prompt.get(name, 0.0) for name in over) / requests
    draft.share("prompts longer than the budget, at least", longer)
    if figures.prompt_tokens and figures.requests:
        draft.number("prompt, mean", figures.prompt_tokens / figures.requests, "tokens")


def _twin_knows(figures: PoolFigures) -> bool:
    """The twin runs the embedded engine's scheduler, over a revision in production."""
    nodes: Sequence[str] = [node.backend for node in figures.serving]
    return bool(nodes) and set(nodes) == {EMBEDDED} and figures.config is not None


def _reason(knob: str) -> str:
    return f"advice: {knob}"


CHECKLIST: dict[Technique, tuple[str, Callable[[PoolFigures], _Draft]]] = {
    Technique.REPLICA: ("Another replica", _replica),
    Technique.MAX_NUM_SEQS: ("More requests at once", _max_num_seqs),
    Technique.KV_MEMORY: ("More KV memory", _kv_memory),
    Technique.STEP_BUDGET: ("Chunked prefill and step budget", _step_budget),
    Technique.PREFIX_CACHING: ("Prefix caching", _prefix_caching),
    Technique.SPECULATION: ("Speculative decoding", _speculation),
    Technique.QUANTIZATION: ("Quantization", _quantization),
}
