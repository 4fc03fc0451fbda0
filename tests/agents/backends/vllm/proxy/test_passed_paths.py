"""What clients reach through the proxy, and what they do not, however it is spelled."""

import pytest

from agents.backends.vllm.proxy.passed_paths import passes


@pytest.mark.parametrize(
    "target",
    [
        "/v1/completions",
        "/v1/models?x=/sleep",
        "/v2/rerank",
        "/tokenize",
        "/health",
        "/metrics",
        "/v1/responses/a/cancel",
    ],
)
def test_the_serving_api_passes(target: str) -> None:
    assert passes(target)


@pytest.mark.parametrize(
    "target",
    [
        *("/sleep", "/collective_rpc", "/reset_prefix_cache", "/server_info", "/docs", "/", "/v1", "/health/x"),
        *("/v1/load_lora_adapter", "/v1/%6coad_lora_adapter", "/v1/unload_lora_adapter?a=b"),
        *("/v1/../sleep", "/v1/%2e%2e/sleep", "/v1//load_lora_adapter", "//v1/models", "/V1/models"),
    ],
)
def test_management_does_not(target: str) -> None:
    assert not passes(target)


def test_a_path_that_is_named_passes() -> None:
    assert passes("/v1/load_lora_adapter?x=1", ["/v1/load_lora_adapter"])
    assert passes("/sleep", ["/sleep"]) and not passes("/sleep/x", ["/sleep"])
