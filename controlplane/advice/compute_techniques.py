"""Techniques that change what steps compute: step budget, prefix caching, drafts, smaller weights. Pure.

docs/advice.md has the formulas.
"""

from controlplane.advice.pool_figures import PoolFigures
from controlplane.advice.technique_draft import (
    CONFIG_UNTOLD,
    FORMATS_UNTOLD,
    GAPS_UNTOLD,
    HASHES_UNTOLD,
    PREFIX_UNTOLD,
    STAGES_UNTOLD,
    STEPS_UNTOLD,
    TechniqueDraft,
)
from controlplane.advice.trial_addresses import place_of
from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    QUANTIZATION,
    Quantization,
    largest,
)
from controlplane.contract.metrics import E2E, ITL, PROMPT_BUCKET_EDGES, PROMPT_BUCKETS, STEP_FORWARD, TPOT, TTFT
from controlplane.contract.share_text import share_text
from controlplane.contract.step_limits import StepLimit

LONGEST_DRAFT = 8
"""A study tries drafts up to this length: were each token accepted, one decode step of nine is left."""


def step_budget(figures: PoolFigures) -> TechniqueDraft:
    draft = TechniqueDraft(
        None, "the larger of (Q + P) x share of steps at the token budget or chunk size, and D x stalls"
    )
    queue, prefill, decode = figures.queue, figures.prefill, figures.decode
    at_budget, at_chunk = figures.limit_share(StepLimit.TOKEN_BUDGET), figures.limit_share(StepLimit.CHUNK)
    draft.knob = PREFILL_CHUNK_SIZE if (at_chunk or 0.0) > (at_budget or 0.0) else MAX_NUM_BATCHED_TOKENS
    draft.place = place_of(draft.knob, figures.serving)
    draft.share("steps at the token budget", at_budget)
    draft.share("steps cut to the chunk size", at_chunk)
    draft.share("stalls: gaps' time beyond the median gap", figures.stalls)
    draft.share("more than one running, of readings", None if figures.running is None else figures.running.share)
    _prompts_over(draft, figures)
    if queue is None or prefill is None or decode is None:
        draft.missing.append(STAGES_UNTOLD)
    elif at_budget is None or at_chunk is None:
        draft.missing.append(STEPS_UNTOLD)
    else:
        more = (queue + prefill) * (at_budget + at_chunk)
        # Who decodes alone is held up by no other's prompt.
        shared = 1.0 if figures.running is None else figures.running.share
        less = decode * min(figures.stalls or 0.0, shared)
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
        draft.offer_range(figures, TTFT.short if upwards else ITL.short, upwards=upwards)
    if figures.stalls is None:
        draft.missing.append(GAPS_UNTOLD)
    return draft


def prefix_caching(figures: PoolFigures) -> TechniqueDraft:
    draft = TechniqueDraft(
        None, "P x (findable - found) / (1 - found); findable: by a cache without bounds, 1 where not known"
    )
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
    draft.proof = "It is no knob: compare the share found, and time to first token by cache class, before and after"
    return draft


def speculation(figures: PoolFigures) -> TechniqueDraft:
    draft = TechniqueDraft(
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
        draft.offer_study(figures.pool, TPOT.short, f"0 to {longest}")
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


def quantization(figures: PoolFigures) -> TechniqueDraft:
    draft = TechniqueDraft(
        None, "(P + D) x share of the forward pass in steps; all of it where not known", knob=QUANTIZATION
    )
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
        draft.offer_study(figures.pool, E2E.short, ", ".join([runs, *others]))
    return draft


def _formats(figures: PoolFigures) -> list[str] | None:
    """Weight formats that every serving node says it can be given; None where one does not say."""
    told = [node.effective.formats if node.effective else [] for node in figures.serving]
    if not told or not all(told):
        return None
    return [one.value for one in Quantization if all(one.value in formats for formats in told)]


def _prompts_over(draft: TechniqueDraft, figures: PoolFigures) -> None:
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
