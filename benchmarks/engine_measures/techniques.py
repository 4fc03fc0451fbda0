"""The techniques of the field, each on and off in our own engine: what every one of them is worth here."""

import random
from typing import Any

from benchmarks.engine_measures.report import figure, heading, note, progress, skipped, spread, table
from benchmarks.engine_measures.session import MAIN, Session
from benchmarks.engine_measures.stats import quantile, summarize
from benchmarks.engine_rivals.protocol import WorkerFailed

_CHUNKS = (0, 256, 128, 64)
_SYSTEM_TOKENS = 300
_QUESTION_TOKENS = 40
_STATIC_BATCH = 8


def measure(session: Session) -> None:
    for part in (attention, prefix_cache, chunks, batching):
        try:
            part(session)
        except WorkerFailed as error:
            skipped(part.__name__, str(error))


def attention(session: Session) -> None:
    heading("Attention implementations")
    assert session.ours is not None
    ways: list[str] = session.ours.ask("attention_ways")
    batch, context, new_tokens = 16, 1000, 8 if session.settings.quick else 16
    note(
        f"The same engine with only its attention exchanged. Prefill: {context} new tokens until the first token, ms. "
        f"Decode: batch {batch}, each behind the same {context} tokens (one copy, by the prefix cache), tokens a "
        f"second. {session.rounds} interleaved rounds."
    )
    pieces = session.texts.code("attention")
    prefills: dict[str, list[float]] = {way: [] for way in ways}
    decodes: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(-1, session.rounds):
        shared = pieces.take(context)
        prompts = [shared + pieces.take(4)[-4:] for _ in range(batch)]
        for way in ways:
            told = session.ours.ask(
                "attention", name=MAIN, way=way, shared=shared, prompts=prompts, new_tokens=new_tokens
            )
            if number >= 0:
                prefills[way].append(1000 * told["prefill_s"])
                decodes[way].append(told["decode_tokens"] / told["decode_s"])
        progress(f"attention round {number + 1} of {session.rounds}")
    table(
        ["attention", f"prefill {context}, ms", f"decode, batch {batch}, tokens/s"],
        [[way, spread(summarize(prefills[way])), spread(summarize(decodes[way]))] for way in ways],
    )


def prefix_cache(session: Session) -> None:
    heading("Prefix cache")
    assert session.ours is not None
    requests = 4 if session.settings.quick else 8
    note(
        f"{requests} requests one after another a round, each a shared system prompt of {_SYSTEM_TOKENS} tokens and "
        f"{_QUESTION_TOKENS} of its own, 8 new tokens; off: everything cached is forgotten before each. "
        f"{session.rounds} interleaved rounds."
    )
    pieces = session.texts.code("prefix cache")
    ways = {"off": True, "on": False}
    ttft: dict[str, list[float]] = {way: [] for way in ways}
    e2e: dict[str, list[float]] = {way: [] for way in ways}
    hits: dict[str, int] = dict.fromkeys(ways, 0)
    for number in range(-1, session.rounds):
        system = pieces.take(_SYSTEM_TOKENS)
        arrivals = [
            {"at_s": 0.0, "prompt": system + pieces.take(_QUESTION_TOKENS + 1)[1:], "max_tokens": 8}
            for _ in range(requests)
        ]
        for way, forget in ways.items():
            told = session.ours.ask("replay", name=MAIN, arrivals=arrivals, one_by_one=True, forget_between=forget)
            if number >= 0:
                ttft[way].append(1000 * summarize([one["ttft_s"] for one in told["requests"]]).median)
                e2e[way].append(1000 * summarize([one["e2e_s"] for one in told["requests"]]).median)
                hits[way] += sum(one["cached_tokens"] for one in told["requests"])
    total = session.rounds * requests * (_SYSTEM_TOKENS + _QUESTION_TOKENS)
    progress("prefix cache done")
    table(
        ["prefix cache", "TTFT, ms", "end to end, ms", "prompt tokens from the cache"],
        [
            [way, spread(summarize(ttft[way])), spread(summarize(e2e[way])), f"{100 * hits[way] / total:.0f} %"]
            for way in ways
        ],
    )


def chunks(session: Session) -> None:
    heading("Prefill chunk sizes")
    assert session.ours is not None
    long_tokens = 1024
    decoding, new_tokens = 4, (96 if session.is_small else 48)
    note(
        f"A prompt of {long_tokens} tokens arrives while {decoding} requests decode: its TTFT, and the gaps between "
        f"the others' tokens, all {session.rounds} interleaved rounds together, ms."
    )
    pieces = session.texts.code("chunks")
    long_ttft: dict[int, list[float]] = {chunk: [] for chunk in _CHUNKS}
    gaps: dict[int, list[float]] = {chunk: [] for chunk in _CHUNKS}
    for number in range(-1, session.rounds):
        arrivals: list[dict[str, Any]] = [
            {"at_s": 0.0, "prompt": pieces.take(32), "max_tokens": new_tokens, "tag": "decoding"}
            for _ in range(decoding)
        ]
        at_s = 0.05 if session.is_small else 0.4
        arrivals.append({"at_s": at_s, "prompt": pieces.take(long_tokens), "max_tokens": 2, "tag": "long"})
        for chunk in _CHUNKS:
            session.ours.ask("set_knobs", name=MAIN, knobs={"prefill_chunk_size": chunk})
            told = session.ours.ask("replay", name=MAIN, arrivals=arrivals)["requests"]
            if number >= 0:
                long_ttft[chunk] += [1000 * one["ttft_s"] for one in told if one["tag"] == "long"]
                gaps[chunk] += [1000 * gap for one in told if one["tag"] == "decoding" for gap in one["gaps_s"]]
    session.ours.ask("set_knobs", name=MAIN, knobs={"prefill_chunk_size": 0})
    progress("chunk sizes done")
    table(
        ["chunk", "long prompt: TTFT", "gaps p50", "p95", "p99", "max"],
        [
            [
                str(chunk) if chunk else "off",
                spread(summarize(long_ttft[chunk])),
                *(figure(quantile(gaps[chunk], share)) for share in (0.5, 0.95, 0.99, 1.0)),
            ]
            for chunk in _CHUNKS
        ],
    )


def batching(session: Session) -> None:
    heading("Static against continuous batching")
    assert session.ours is not None
    requests = 12 if session.settings.quick or not session.is_small else 24
    longest = 96 if session.is_small else 48
    note(
        f"{requests} requests at once, 64-token prompts, 4 to {longest} new tokens (uniform), at most {_STATIC_BATCH} "
        f"run. Static: a batch of {_STATIC_BATCH} is taken up and run until its last one has ended. {session.rounds} "
        "interleaved rounds."
    )
    rng = random.Random(f"{session.settings.seed}:batching")
    pieces = session.texts.code("batching")
    session.ours.ask("set_knobs", name=MAIN, knobs={"max_num_seqs": _STATIC_BATCH})
    ways = {"static": _STATIC_BATCH, "continuous": 0}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    ttft: dict[str, list[float]] = {way: [] for way in ways}
    ends: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(-1, session.rounds):
        arrivals: list[dict[str, Any]] = [
            {"at_s": 0.0, "prompt": pieces.take(64), "max_tokens": rng.randint(4, longest)} for _ in range(requests)
        ]
        tokens = sum(one["max_tokens"] for one in arrivals)
        for way, static in ways.items():
            told = session.ours.ask("replay", name=MAIN, arrivals=arrivals, static_batch=static)
            if number >= 0:
                rates[way].append(tokens / told["wall_s"])
                ttft[way].append(1000 * quantile([one["ttft_s"] for one in told["requests"]], 0.95))
                ends[way].append(1000 * summarize([one["e2e_s"] for one in told["requests"]]).median)
    session.ours.ask("set_knobs", name=MAIN, knobs={"max_num_seqs": 32})
    progress("batching done")
    table(
        ["batching", "output tokens/s", "TTFT p95, ms", "end to end p50, ms"],
        [[way, *(spread(summarize(found[way])) for found in (rates, ttft, ends))] for way in ways],
    )
