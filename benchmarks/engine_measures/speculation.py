"""Speculative decoding on code: end-to-end speed by method, precision, draft length and batch size."""

from collections.abc import Sequence
from typing import Any

from benchmarks.engine_measures.report import figure, heading, note, progress, ratio, skipped, table
from benchmarks.engine_measures.session import Session
from benchmarks.engine_measures.stats import paired_ratio, summarize
from benchmarks.engine_rivals.protocol import WorkerFailed

LENGTHS = (2, 4, 8)
BATCHES = (1, 4, 16)
_PROMPT_TOKENS = 256
_GATED = "length 4, gate on"
_KNOB = "num_speculative_tokens"


def measure(session: Session) -> None:
    heading("Speculation on code")
    assert session.ours is not None
    methods = list(session.ours.ask("offered")["methods"])
    if session.draft_dir is None and "draft_model" in methods:
        methods.remove("draft_model")
        skipped("speculation by draft model", "no folder of that model's name with -draft beside it")
    new_tokens = 24 if session.settings.quick else (192 if session.is_small else 80)
    note(
        f"Library code: {_PROMPT_TOKENS}-token prompts that begin in the middle of a file, {new_tokens} new tokens, "
        "greedy. End to end: from handing the requests over until the last token, so the prompts' work is inside. x: "
        "time without speculation over time with it, in the same engine, paired by round. Greedy text of small models "
        "goes in circles, which flatters every drafter; the share of repeated 8-grams tells how much."
    )
    _batch_one(session, methods, new_tokens)
    # Where a step takes tens of milliseconds, the table by batch size keeps to the method that needs no model.
    _by_batch(session, methods if session.is_small else ["ngram"], new_tokens)


def _load(session: Session, method: str, dtype: str, gate: bool) -> str | None:
    """The engine's name, None when it does not run this."""
    name = f"{method} {dtype} {'gated' if gate else 'free'}"
    draft: dict[str, Any] = {"draft_model": str(session.draft_dir)} if method == "draft_model" else {}
    try:
        session.load_ours(name, speculative_method=method, dtype=dtype, speculation_gate=gate, **draft)
    except WorkerFailed as error:
        skipped(f"speculation by {method} in {dtype}", str(error))
        return None
    return name


def _set(session: Session, name: str, length: int) -> None:
    assert session.ours is not None
    session.ours.ask("set_knobs", name=name, knobs={_KNOB: length})


def _decode(session: Session, name: str, length: int, prompts: list[list[int]], count: int) -> dict[str, Any]:
    """From an empty cache, so that nothing but the draft length differs."""
    _set(session, name, length)
    assert session.ours is not None
    session.ours.ask("forget", name=name)
    return session.our_decode(name, prompts, count)


def _batch_one(session: Session, methods: Sequence[str], new_tokens: int) -> None:
    """Every method and length at batch 1, in float32 (where the text must be identical) and bfloat16."""
    rows: list[list[str]] = []
    repeated = 0.0
    for dtype in ("float32", "bfloat16"):
        for method in methods:
            if (name := _load(session, method, dtype, gate=True)) is None:
                continue
            pieces = session.texts.code("speculation")
            times: dict[int, list[float]] = {length: [] for length in (0, *LENGTHS)}
            rates: dict[int, list[float]] = {length: [] for length in (0, *LENGTHS)}
            same: dict[int, list[bool]] = {length: [] for length in LENGTHS}
            for length in times:  # First-time preparation of every row count.
                _decode(session, name, length, [pieces.take(_PROMPT_TOKENS)], 16)
            for _ in range(session.rounds):
                prompt = pieces.take(_PROMPT_TOKENS)
                plain: list[int] = []
                for length in times:
                    found = _decode(session, name, length, [prompt], new_tokens)
                    times[length].append(found["total_s"])
                    rates[length].append(found["decode_tokens"] / found["decode_s"])
                    if length:
                        same[length].append(found["outputs"][0] == plain)
                    else:
                        plain = found["outputs"][0]
                        repeated += _repeated_share(plain) / session.rounds / len(methods) / 2
            for length in LENGTHS:
                identical = f"{sum(same[length])} of {len(same[length])}"
                rows.append(
                    [
                        dtype,
                        method,
                        str(length),
                        ratio(paired_ratio(times[0], times[length])),
                        ratio(paired_ratio(rates[length], rates[0])),
                        identical,
                    ]
                )
            progress(f"speculation batch 1: {name}: {rows[-2][3]} at {LENGTHS[-2]}")
            assert session.ours is not None
            session.ours.ask("unload", names=[name])
    note(f"\nBatch 1, the gate on as by default. Repeated 8-grams in the plain text: {100 * repeated:.0f} %.")
    table(["precision", "drafts by", "draft length", "x end to end", "x while decoding", "identical text"], rows)


def _by_batch(session: Session, methods: Sequence[str], new_tokens: int) -> None:
    """Draft length by batch size, bfloat16; the gate off, so that losing shows, and once on."""
    rows: list[list[str]] = []
    for method in methods:
        free, gated = (_load(session, method, "bfloat16", gate=gate) for gate in (False, True))
        if free is None or gated is None:
            continue
        ways = {**{f"length {length}": (free, length) for length in (0, *LENGTHS)}, _GATED: (gated, 4)}
        pieces = session.texts.code("speculation by batch")
        for name, length in ways.values():
            _decode(session, name, length, pieces.take_many(16, 64), 8)
        for batch in BATCHES:
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(session.rounds):
                prompts = pieces.take_many(batch, 64)
                for way, (name, length) in ways.items():
                    times[way].append(_decode(session, name, length, prompts, new_tokens // 2)["total_s"])
            plain = times.pop("length 0")
            rates = [batch * (new_tokens // 2) / own for own in plain]
            rows.append(
                [
                    method,
                    str(batch),
                    figure(summarize(rates).median),
                    *(ratio(paired_ratio(plain, own)) for own in times.values()),
                ]
            )
            progress(f"speculation by batch: {method} at {batch}: {rows[-1][2:]}")
        assert session.ours is not None
        session.ours.ask("unload", names=[free, gated])
    note(
        f"By batch size, bfloat16, 64-token prompts, {new_tokens // 2} new tokens, x end to end; the gate off "
        "but where it says."
    )
    table(
        ["drafts by", "batch", "length 0, tokens/s end to end", *(f"length {length}" for length in LENGTHS), _GATED],
        rows,
    )


def _repeated_share(tokens: Sequence[int], size: int = 8) -> float:
    """The share of n-grams that occurred before in the same text."""
    grams = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
