"""Milliseconds to take in a prompt of 512 tokens and give the first token."""

from collections.abc import Callable

from benchmarks.engine_measures.report import heading, note, progress, ratio, skipped, spread, table
from benchmarks.engine_measures.session import MAIN, Session
from benchmarks.engine_measures.stats import paired_ratio, summarize
from benchmarks.engine_rivals.protocol import WorkerFailed

PROMPT_TOKENS = 512
_WARM_UPS = 2
_A_ROUND = 3


def measure(session: Session) -> None:
    heading(f"Prefill of {PROMPT_TOKENS} tokens")
    note(
        "One request alone, a prompt that nobody has seen, until its first token (ms): in each round the median of "
        f"{_A_ROUND}; median of {session.rounds} interleaved rounds (quartiles; minimum). x: its time over ours."
    )
    assert session.ours is not None
    ours, vllm, hf = session.ours, session.vllm, session.transformers
    rivals: dict[str, Callable[[list[int]], float]] = {
        "ours": lambda prompt: ours.ask("prefill", name=MAIN, prompt=prompt)
    }
    if vllm is not None:
        rivals["vLLM"] = lambda prompt: vllm.ask("prefill", prompt=prompt)
    if hf is not None:
        rivals["transformers generate"] = lambda prompt: hf.ask("prefill", name=MAIN, prompt=prompt)
    pieces = session.texts.code("prefill")
    found: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(-_WARM_UPS, session.rounds):
        for name in list(rivals):
            try:
                times = [1000 * rivals[name](pieces.take(PROMPT_TOKENS)) for _ in range(_A_ROUND if number >= 0 else 1)]
            except WorkerFailed as error:
                skipped(f"prefill of {name}", str(error))
                del rivals[name], found[name]
                continue
            if number >= 0:
                found[name].append(summarize(times).median)
    progress("prefill done")
    table(
        ["", "ms", "x"],
        [
            [name, spread(summarize(own)), "" if name == "ours" else ratio(paired_ratio(own, found["ours"]))]
            for name, own in found.items()
        ],
    )
