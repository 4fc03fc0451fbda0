"""The weight formats against our own bfloat16: decode speed and what they cost in quality."""

from benchmarks.engine_measures.report import figure, heading, note, progress, ratio, skipped, spread, table
from benchmarks.engine_measures.session import MAIN, Session
from benchmarks.engine_measures.stats import paired_ratio, summarize
from benchmarks.engine_rivals.protocol import WorkerFailed

BATCHES = (1, 4, 16)
_PROMPT_TOKENS = 64
_HELD_OUT_TOKENS = 401
_QUANTIZATION = "quantization"


def measure(session: Session) -> None:
    heading("Quantization")
    offered = [name for name in session.facts["ours"]["capabilities"][_QUANTIZATION] if name != "none"]
    names: dict[str, str] = {"none": MAIN}
    for name in offered:
        try:
            session.load_ours(name, {_QUANTIZATION: name})
            names[name] = name
        except WorkerFailed as error:
            skipped(f"quantization {name}", str(error))
    for name in ("int8", "int4", "fp8"):
        if name not in offered:
            skipped(f"quantization {name}", "the engine's effective capabilities do not list it")
    if len(names) > 1:
        _quality(session, names)
        _speed(session, names)
    assert session.ours is not None
    session.ours.ask("unload", names=[name for name in names.values() if name != MAIN])


def _quality(session: Session, names: dict[str, str]) -> None:
    note(
        f"Quality, teacher-forced on held-out text, {_HELD_OUT_TOKENS} tokens each: the beginning of a library "
        "module that the bundled model was not trained on; half from our README, half from the licence. Loss in nats a "
        "token, KL(bfloat16 || it) in nats, share of places with the same most likely token. All: both together."
    )
    assert session.ours is not None
    rows: dict[str, list[str]] = {name: [name] for name in names}
    texts = session.texts.held_out(_HELD_OUT_TOKENS)
    parts = {**{name: [prompt] for name, prompt in texts}, "all": [prompt for _, prompt in texts]}
    for prompts in parts.values():
        found = session.ours.ask(
            "quality", reference=MAIN, others=[name for name in names.values() if name != MAIN], prompts=prompts
        )
        for name, held in names.items():
            own = found[held]
            rows[name] += [f"{own['nats']:.3f}", f"{own['kl']:.4f}", f"{own['top1']:.3f}"]
    progress(f"quantization quality: {rows}")
    table(["weights", *(f"{part}: {what}" for part in parts for what in ("loss", "KL", "top-1"))], list(rows.values()))


def _speed(session: Session, names: dict[str, str]) -> None:
    new_tokens = 12 if session.settings.quick else (96 if session.is_small else 32)
    pieces = session.texts.code("quantization")
    rates: dict[tuple[str, int], list[float]] = {}
    for number in range(-1, session.rounds):
        for batch in BATCHES:
            prompts = pieces.take_many(batch, _PROMPT_TOKENS)
            for name, held in names.items():
                found = session.our_decode(held, prompts, new_tokens if number >= 0 else 6)
                if number >= 0:
                    rates.setdefault((name, batch), []).append(found["decode_tokens"] / found["decode_s"])
        progress(
            f"quantization round {number + 1} of {session.rounds}: "
            + ", ".join(f"{name} b{batch} {figure(own[-1])}" for (name, batch), own in rates.items())
        )
    note(
        f"Decode tokens a second, {new_tokens} new tokens after {_PROMPT_TOKENS}; x: over our own bfloat16, paired by "
        f"round ({session.rounds} rounds)."
    )
    rows = []
    for name in names:
        cells = [name]
        for batch in BATCHES:
            own = rates[name, batch]
            cells += [spread(summarize(own)), "" if name == "none" else ratio(paired_ratio(own, rates["none", batch]))]
        rows.append(cells)
    table(["weights", *(text for batch in BATCHES for text in (f"batch {batch}", "x"))], rows)
