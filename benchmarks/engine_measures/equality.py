"""Greedy tokens against transformers' in float32 on the real weights, through everything that could disturb them."""

from benchmarks.engine_measures.report import heading, note, progress, skipped, table
from benchmarks.engine_measures.session import Session
from benchmarks.engine_rivals.protocol import WorkerFailed

_PROMPTS = 4
_PROMPT_TOKENS = 100
_NEW_TOKENS = 32
_EXACT = "float32"
WAYS: dict[str, dict[str, int]] = {
    "whole prompts, one batch": {},
    "prompts in pieces of 24, a budget of 40": {"prefill_chunk_size": 24, "max_num_batched_tokens": 40},
    "n-gram speculation of 4": {"num_speculative_tokens": 4},
    "all of it again, from the prefix cache": {
        "prefill_chunk_size": 24,
        "max_num_batched_tokens": 40,
        "num_speculative_tokens": 4,
    },
}


def measure(session: Session) -> None:
    heading("Greedy equality in float32")
    hf = session.transformers
    assert session.ours is not None
    if hf is None:
        skipped("equality", session.missing.get("transformers", "transformers is not running"))
        return
    hf.ask("load", name=_EXACT, model_dir=str(session.model_dir), dtype="float32", threads=session.settings.threads)
    session.load_ours(_EXACT, dtype="float32")
    prompts = session.texts.code("equality").take_many(_PROMPTS, _PROMPT_TOKENS)
    wanted = [
        hf.ask("decode", name=_EXACT, prompts=[prompt], new_tokens=_NEW_TOKENS)["outputs"][0] for prompt in prompts
    ]
    rows = []
    for way, knobs in WAYS.items():
        plain = {"prefill_chunk_size": 0, "max_num_batched_tokens": 2048, "num_speculative_tokens": 0}
        session.ours.ask("set_knobs", name=_EXACT, knobs={**plain, **knobs})
        if "prefix cache" not in way:
            session.ours.ask("forget", name=_EXACT)
        try:
            got = session.our_decode(_EXACT, prompts, _NEW_TOKENS)["outputs"]
        except WorkerFailed as error:
            skipped(f"equality: {way}", str(error))
            continue
        equal = sum(mine == theirs for mine, theirs in zip(got, wanted, strict=True))
        rows.append([way, f"{equal} of {len(wanted)}"])
    note(f"Texts equal to transformers' `generate`: {_PROMPT_TOKENS}-token prompts, {_NEW_TOKENS} new tokens.")
    table(["way", "equal texts"], rows)
    progress(f"equality: {rows}")
    hf.ask("unload", name=_EXACT)
    session.ours.ask("unload", names=[_EXACT])
