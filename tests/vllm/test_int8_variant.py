"""vLLM on a CPU serves the int8 variant that we write, and says much the same as the plain model."""

from collections.abc import Callable
from pathlib import Path

import httpx

from agents.backends.vllm.variants.checkpoint import write_variant
from agents.backends.vllm.variants.formats import format_named
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import MODEL, MODEL_DIR, VllmServer, vllm_arguments

LEAST_AGREEMENT = 0.9
"""Share of greedy tokens that stay the most likely ones. Seen: 0.995 with the bundled model."""
TOKENS = 32


def test_vllm_serves_the_int8_variant(
    vllm_server: VllmServer, start_vllm: Callable[..., VllmServer], tmp_path: Path
) -> None:
    write_variant(MODEL_DIR, tmp_path / "int8", format_named("int8"))
    # In bfloat16: on a processor with AMX the kernels that vLLM takes for int8 want it.
    quantized = start_vllm(model_dir=tmp_path / "int8", arguments=[*vllm_arguments(), "--dtype", "bfloat16"])
    assert quantized.read_json("effective.json")["quantization"] == "compressed-tensors/int8"
    assert "CompressedTensorsW8A8Int8" in quantized.log.read_text()
    agreed = asked = 0
    for prompt in prompts(12, seed=41):
        chosen = _ask(vllm_server, prompt, max_tokens=TOKENS, return_token_ids=True)["token_ids"]
        # The plain model's own continuation, rated by the quantized one.
        rated = _ask(quantized, prompt + chosen, max_tokens=1, prompt_logprobs=1)["prompt_logprobs"]
        agreed += sum(rated[len(prompt) + place][str(token)]["rank"] == 1 for place, token in enumerate(chosen))
        asked += len(chosen)
    print(f"{agreed} of {asked} greedy tokens are the most likely ones in int8 too")
    assert agreed >= LEAST_AGREEMENT * asked


def _ask(server: VllmServer, prompt: list[int], **more: object) -> dict[str, object]:
    body = {"model": MODEL, "prompt": prompt, "temperature": 0, "ignore_eos": True, **more}
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=300, trust_env=False)
    assert answer.status_code == 200, f"{answer.text}\n{server.log_end()}"
    found: dict[str, object] = answer.json()["choices"][0]
    return found
