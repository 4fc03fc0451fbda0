"""Short requests beside long prompts: their first tokens with and without the lane for long prompts."""

import random
from typing import Any

from benchmarks.engine_measures.report import figure, heading, note, progress, skipped, table
from benchmarks.engine_measures.session import Session
from benchmarks.engine_measures.stats import quantile, summarize

LANE_OFF = {"long_prompt_threshold": 0}
LANE_ON = {"long_prompt_threshold": 256}
_SHORT_TOKENS = (24, 96)
_NEW_TOKENS = 12


def measure(session: Session) -> None:
    heading("The lane for long prompts")
    assert session.ours is not None
    absent = [name for name in LANE_ON if name not in session.ours.ask("offered")["options"]]
    if absent:
        skipped("the long-prompt lane", f"not offered: the engine has no option {absent[0]}")
        return
    seconds = 2.0 if session.settings.quick else 8.0
    long_tokens = session.longest - 64 if session.is_small else 2048
    # Near the short ones' capacity nothing but their own queue would be seen; a third of the time is left to the long.
    rate, long_every_s = (40.0, 0.5) if session.is_small else (2.5, 4.0)
    budget = {"max_num_batched_tokens": 256, "max_num_seqs": 32}
    note(
        f"Open loop in process, {session.rounds} interleaved rounds of {seconds:g} s, the same arrivals for both: "
        f"short requests ({_SHORT_TOKENS[0]} to {_SHORT_TOKENS[1]} tokens, {rate:g}/s, Poisson), every "
        f"{long_every_s:g} s a prompt of {long_tokens}; {_NEW_TOKENS} new tokens each; "
        f"{budget['max_num_batched_tokens']} tokens a step. All requests of all rounds together; ms."
    )
    ways = {"without": LANE_OFF, "with": LANE_ON}
    for name, options in ways.items():
        session.load_ours(f"lane {name}", budget, **options)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    p99: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, session.rounds):
        arrivals = _arrivals(session, number, seconds if number >= 0 else 1.0, rate, long_every_s, long_tokens)
        for name in ways:
            told = session.ours.ask("replay", name=f"lane {name}", arrivals=arrivals)["requests"]
            if number >= 0:
                found[name] += told
                p99[name].append(1000 * quantile([one["ttft_s"] for one in told if one["tag"] == "short"], 0.99))
        progress(f"lanes round {number + 1} of {session.rounds}: {p99}")
    rows = []
    for name in ways:
        short = [1000 * one["ttft_s"] for one in found[name] if one["tag"] == "short"]
        long = [1000 * one["ttft_s"] for one in found[name] if one["tag"] == "long"]
        rows.append(
            [
                name,
                str(len(short)),
                *(figure(quantile(short, share)) for share in (0.5, 0.95)),
                f"**{figure(quantile(short, 0.99))}** (rounds: {figure(min(p99[name]))} to {figure(max(p99[name]))})",
                figure(summarize(long).median),
                figure(max(long)),
            ]
        )
    table(["lane", "short", "TTFT p50", "p95", "p99", "long: TTFT p50", "max"], rows)
    session.ours.ask("unload", names=[f"lane {name}" for name in ways])


def _arrivals(
    session: Session, number: int, seconds: float, rate: float, long_every_s: float, long_tokens: int
) -> list[dict[str, Any]]:
    """One round's, the same for both ways."""
    rng = random.Random(f"{session.settings.seed}:lanes:{number}")
    pieces = session.texts.code(f"lanes {number}")
    arrivals: list[dict[str, Any]] = []
    now = rng.expovariate(rate)
    while now < seconds:
        prompt = pieces.take(rng.randint(*_SHORT_TOKENS))
        arrivals.append({"at_s": now, "prompt": prompt, "max_tokens": _NEW_TOKENS, "tag": "short"})
        now += rng.expovariate(rate)
    now = long_every_s / 4
    while now < seconds:
        prompt = pieces.take(long_tokens)
        arrivals.append({"at_s": now, "prompt": prompt, "max_tokens": _NEW_TOKENS, "tag": "long"})
        now += long_every_s
    return arrivals
