"""Edges of the histograms in /metrics: vLLM's (vllm/v1/metrics/buckets.py, 0.32), so that panels made for it fit."""

REQUEST_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
FIRST_TOKEN_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
STEP_TOKENS = tuple(float(edge) for edge in (1, *(2**power for power in range(3, 15))))


def request_tokens(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, ... up to the longest a request can be."""
    edges = [float(digit * 10**power) for power in range(10) for digit in (1, 2, 5)]
    return tuple(edge for edge in edges if edge <= most)
