"""Log probabilities of prompts equal transformers', through chunks, batch-mates and a warm cache."""

from pathlib import Path

import pytest
import torch
import transformers

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from controlplane.contract.knobs import parse_config
from tests.agents.engine.conftest import drive


@pytest.mark.parametrize("chunk", [0, 7, 64])
@torch.inference_mode()
def test_they_are_the_log_softmax_of_the_models_logits(model_dir: Path, chunk: int) -> None:
    prompts = [[(7 * place + seed) % 300 for place in range(90)] for seed in (1, 1, 5)]
    knobs = {"max_num_batched_tokens": 64, "prefill_chunk_size": chunk}
    engine = StepEngine(EngineOptions(model_dir, config=parse_config(knobs)), EventLog())
    drive(engine, prompts[:1], [SamplingParams(2)])  # The same prompt is in the cache, and is not taken from there.
    params = SamplingParams(3, prompt_logprobs=4, logprobs=2)
    requests = [Request(str(place), prompt, params) for place, prompt in enumerate(prompts)]
    told: dict[Request, list[float]] = {request: [] for request in requests}
    for request in requests:
        engine.scheduler.add(request)
    while engine.scheduler.has_work:
        for output in engine.step():
            told[output.request] += [entry.logprob for entry in output.logprobs[: len(output.tokens)]]
    model = transformers.LlamaForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    for request in requests:
        wanted = torch.log_softmax(model(torch.tensor([request.tokens])).logits[0], dim=-1)
        known = request.prompt_logprobs
        assert known is not None and known[0] is None and len(known) == request.prompt_length
        assert request.cached_tokens == 0
        got = [entry.logprob for entry in known if entry is not None] + told[request]
        real = torch.tensor(request.tokens[1:])
        expected = wanted[:-1].gather(1, real.unsqueeze(1)).squeeze(1)
        assert torch.allclose(torch.tensor(got), expected, atol=1e-4)
        for place, entry in enumerate(known[1:]):
            assert entry is not None
            order = wanted[place].argsort(descending=True)
            assert [token for token, _ in entry.top] == order[:4].tolist()
            assert entry.rank == int((order == entry.token).nonzero()) + 1
