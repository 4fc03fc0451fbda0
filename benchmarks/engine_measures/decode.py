"""Decode tokens a second at batch 1, 4 and 16 against every rival, interleaved."""

from collections.abc import Callable
from typing import Any

from benchmarks.engine_measures.report import figure, heading, note, progress, ratio, skipped, spread, table
from benchmarks.engine_measures.session import MAIN, Session
from benchmarks.engine_measures.stats import paired_ratio, summarize
from benchmarks.engine_rivals.protocol import WorkerFailed

BATCHES = (1, 4, 16)
PROMPT_TOKENS = 128

Decode = Callable[[list[list[int]], int], dict[str, Any]]


def contestants(session: Session) -> dict[str, Decode]:
    """By name, ours first."""
    assert session.ours is not None
    found: dict[str, Decode] = {"ours": lambda prompts, count: session.our_decode(MAIN, prompts, count)}
    if (vllm := session.vllm) is not None:
        found["vLLM"] = lambda prompts, count: vllm.ask("decode", prompts=prompts, new_tokens=count)
    if (hf := session.transformers) is not None:
        found["transformers generate"] = lambda prompts, count: hf.ask(
            "decode", name=MAIN, prompts=prompts, new_tokens=count
        )
        found["transformers continuous"] = lambda prompts, count: hf.ask(
            "decode_continuous", name=MAIN, prompts=prompts, new_tokens=count
        )
    return found


def measure(session: Session) -> None:
    heading("Decode")
    new_tokens = 16 if session.settings.quick else (128 if session.is_small else 64)
    rivals = contestants(session)
    note(
        f"{PROMPT_TOKENS}-token pieces of library code, other ones each round, {new_tokens} new tokens each, greedy, "
        "EOS ignored. Rate: tokens after the moment when every request of the batch has its first one, over the time "
        f"from that moment to the last token. Tokens a second: median of {session.rounds} interleaved rounds "
        "(quartiles; minimum); x: ours over it, paired by round."
    )
    for name in ("vllm", "transformers"):
        if name in session.missing:
            skipped(name, session.missing[name])
    pieces = session.texts.code("decode")
    _warm_up(rivals, pieces.take_many(max(BATCHES), PROMPT_TOKENS))
    rates: dict[tuple[str, int], list[float]] = {}
    busy: dict[str, list[float]] = {}
    outputs: dict[str, list[list[int]]] = {}
    for number in range(session.rounds):
        for batch in BATCHES:
            prompts = pieces.take_many(batch, PROMPT_TOKENS)
            # Nobody always runs first or last.
            names = list(rivals)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                try:
                    found = rivals[name](prompts, new_tokens)
                except WorkerFailed as error:
                    skipped(f"decode of {name} at batch {batch}", str(error))
                    del rivals[name]
                    continue
                rates.setdefault((name, batch), []).append(found["decode_tokens"] / found["decode_s"])
                busy.setdefault(name, []).append(found["busy_cores"])
                outputs.setdefault(name, []).extend(found["outputs"])
            progress(
                f"decode round {number + 1} of {session.rounds}, batch {batch}: "
                + ", ".join(f"{name} {figure(own[-1])}" for (name, size), own in rates.items() if size == batch)
            )
    _print(session, list(rivals), rates, busy, outputs)


def _warm_up(rivals: dict[str, Decode], prompts: list[list[int]]) -> None:
    """Each shape once, with other prompts than those measured; who cannot is out."""
    for name in list(rivals):
        progress(f"warming up {name}")
        try:
            for batch in BATCHES:
                rivals[name](prompts[:batch], 6)
        except WorkerFailed as error:
            if name == "ours":
                raise
            skipped(f"decode of {name}", str(error))
            del rivals[name]


def _print(
    session: Session,
    names: list[str],
    rates: dict[tuple[str, int], list[float]],
    busy: dict[str, list[float]],
    outputs: dict[str, list[list[int]]],
) -> None:
    rows = []
    for name in names:
        cells = [name]
        for batch in BATCHES:
            own = rates[name, batch]
            cells.append(spread(summarize(own)))
            cells.append("" if name == "ours" else ratio(paired_ratio(rates["ours", batch], own)))
        rows.append(cells)
    table(["", *(text for batch in BATCHES for text in (f"batch {batch}", "x"))], rows)
    cores = ", ".join(
        f"{name} {summarize(own).median:.2f}" for name, own in busy.items() if name in names and own[0] == own[0]
    )
    note(f"Cores busy while decoding (CPU seconds a second, median): {cores}.")
    for name in names:
        if name != "ours":
            same = sum(_common(mine, other) for mine, other in zip(outputs["ours"], outputs[name], strict=True))
            total = sum(map(len, outputs["ours"]))
            note(
                f"Greedy text in common with {name} before the first difference (bfloat16): {100 * same / total:.0f} %."
            )


def _common(left: list[int], right: list[int]) -> int:
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        if one != other:
            return place
    return len(left)
