"""/metrics: vLLM's names, figures that are right, and nothing that Prometheus' own tool finds wrong."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agents.engine.core.engine import Engine
from controlplane.contract.knobs import parse_config
from controlplane.contract.step_limits import StepLimit
from tests.agents.engine.serving import eventually, serving

VLLM = {
    *("num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"),
    *("prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total", "request_success_total"),
    *("prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total", "cache_config_info"),
    *("spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"),
    *("spec_decode_num_accepted_tokens_per_pos_total", "admission_rejections_total"),
    *("time_to_first_token_seconds_bucket", "inter_token_latency_seconds_bucket", "iteration_tokens_total_bucket"),
    *("request_time_per_output_token_seconds_bucket", "e2e_request_latency_seconds_bucket"),
    *(f"request_{part}_time_seconds_bucket" for part in ("queue", "prefill", "decode", "inference")),
    *("request_prompt_tokens_bucket", "request_generation_tokens_bucket"),
}


@pytest.fixture(scope="module")
def scraped(model_dir: Path) -> Iterator[tuple[Engine, str]]:
    """After three requests with speculation, one of which shares its prompt, and one refusal."""
    with serving(model_dir, config=parse_config({"num_speculative_tokens": 3}), speculation_gate=False) as running:
        engine, address = running
        with httpx.Client(base_url=address, timeout=60) as client:
            for prompt in ([4, 5, 6] * 16, [4, 5, 6] * 16, [8] * 16):
                body = {"prompt": prompt, "max_tokens": 20, "temperature": 0, "ignore_eos": True}
                assert client.post("/v1/completions", json=body).status_code == 200
            assert client.post("/v1/completions", json={"prompt": "a", "timeout_s": 1e-7}).status_code == 503
            eventually(lambda: [event["kind"] for event in engine.log.after(0, 10**6)].count("finished") == 3)
            yield engine, client.get("/metrics").text


def _values(text: str) -> dict[str, dict[str, float]]:
    """Sample name to its values by the labels that differ."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name not in ("model_name", "engine")}
            found.setdefault(sample.name, {})[",".join(labels.values())] = sample.value
    return found


def test_vllms_names_and_labels_are_there(scraped: tuple[Engine, str]) -> None:
    text = scraped[1]
    for name in VLLM:
        lines = re.findall(rf"^vllm:{name}{{(.*)}} ", text, re.MULTILINE)
        assert lines, name
        assert all('model_name="tiny"' in line for line in lines)
        assert all('engine="0"' in line for line in lines) or name == "admission_rejections_total"


def test_the_figures_are_those_of_the_requests(scraped: tuple[Engine, str]) -> None:
    engine, text = scraped
    values = _values(text)
    steps = [event for event in engine.log.after(0, 10**6) if event["kind"] == "step"]
    assert values["vllm:request_success_total"]["length"] == 3
    assert values["vllm:prompt_tokens_total"][""] == 48 + 48 + 16 == values["vllm:request_prompt_tokens_sum"][""]
    assert values["vllm:generation_tokens_total"][""] == 60
    assert values["vllm:prompt_tokens_cached_total"][""] == values["vllm:prefix_cache_hits_total"][""] == 32
    assert (
        values["vllm:e2e_request_latency_seconds_count"][""] == 3 == values["vllm:request_queue_time_seconds_count"][""]
    )
    assert values["vllm:iteration_tokens_total_count"][""] == len(steps) == values["tailwright:engine_steps_total"][""]
    assert values["vllm:iteration_tokens_total_sum"][""] == sum(event["batched_tokens"] for event in steps)
    drafts = sum(event["draft_tokens"] for event in steps)
    accepted = sum(event["accepted_tokens"] for event in steps)
    assert values["vllm:spec_decode_num_draft_tokens_total"][""] == drafts > 0
    assert values["vllm:spec_decode_num_accepted_tokens_total"][""] == accepted
    assert sum(values["vllm:spec_decode_num_accepted_tokens_per_pos_total"].values()) == accepted
    assert values["vllm:admission_rejections_total"]["deadline"] == 1
    limits = values["tailwright:engine_step_limit_total"]
    assert set(limits) == set(StepLimit) and sum(limits.values()) == len(steps)
    assert limits == {limit.value: sum(event.get("limit") == limit for event in steps) for limit in StepLimit}
    parts = values["tailwright:engine_step_seconds_total"]
    assert set(parts) == {"schedule", "draft", "forward", "attention", "sample", "commit"}
    assert parts["forward"] == pytest.approx(sum(event["forward"] for event in steps))
    assert parts["attention"] <= parts["forward"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_no_fault_but_vllms_own_names(scraped: tuple[Engine, str]) -> None:
    """vLLM's names have colons, and a histogram that ends in _total: kept, because dashboards ask for them."""
    run = subprocess.run(
        ["promtool", "check", "metrics"], input=scraped[1], capture_output=True, text=True, check=False
    )
    faults = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    own = [
        line
        for line in faults
        if "should not contain ':'" not in line and not line.startswith("vllm:iteration_tokens_total ")
    ]
    assert own == [] and run.returncode in (0, 3), "1 would mean that it cannot be read"
