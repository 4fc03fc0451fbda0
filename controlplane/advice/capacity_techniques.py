"""Techniques that take room: another replica, more requests at once, more KV memory. Pure.

docs/advice.md has the formulas.
"""

from controlplane.advice.pool_figures import PoolFigures
from controlplane.advice.technique_draft import (
    PREEMPTED_UNTOLD,
    RUNNING_UNTOLD,
    STAGES_UNTOLD,
    STEPS_UNTOLD,
    TechniqueDraft,
    twin_knows,
)
from controlplane.advice.trial_addresses import forecast_address, place_of
from controlplane.contract.knobs import MAX_NUM_SEQS
from controlplane.contract.metrics import TTFT
from controlplane.contract.share_text import share_text
from controlplane.contract.step_limits import KV_MEMORY, StepLimit


def replica(figures: PoolFigures) -> TechniqueDraft:
    queue, prefill, decode, running = figures.queue, figures.prefill, figures.decode, figures.running
    draft = TechniqueDraft(None, "Q + (P + D) x share of readings with more than one request running")
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
    if twin_knows(figures):
        draft.forecast = forecast_address(figures.pool, replicas=str(figures.nodes + 1))
        draft.proof = "The twin forecasts it; a node more, compared before and after on Explore, proves it"
    else:
        draft.proof = (
            "A node more, compared before and after on Explore; the twin forecasts pools of the embedded engine, and "
            "of vLLM where the service has vllm_python"
        )
    return draft


def max_num_seqs(figures: PoolFigures) -> TechniqueDraft:
    formula = "Q x share of max_num_seqs among the steps that left requests waiting"
    draft = TechniqueDraft(None, formula, knob=MAX_NUM_SEQS)
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
    draft.offer_range(figures, TTFT.short, upwards=True)
    return draft


def kv_memory(figures: PoolFigures) -> TechniqueDraft:
    draft = TechniqueDraft(
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
    draft.proof = (
        "An option of the start, which no study sets: give one node more, and compare it with others on Explore"
    )
    return draft
