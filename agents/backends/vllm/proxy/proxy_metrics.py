"""The state for Prometheus, in its text format (version 0.0.4)."""

from collections.abc import Mapping

from agents.backends.vllm.proxy.state import ProxyState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "tailwright_vllm_proxy_"


def exposition(state: ProxyState) -> str:
    """All of the state that is a number. Durations in seconds, since the proxy's start."""
    families = [
        _family("requests_total", "counter", "Requests that arrived.", {"": state.requests}),
        _family("resent_total", "counter", "Requests sent again, since no server had taken them.", {"": state.resent}),
        _family("failed_total", "counter", "Requests failed by the proxy.", _labels("reason", state.failed)),
        _family("left_total", "counter", "Requests whose client went away.", {"": state.left}),
        _family("refused_total", "counter", "Connections that were not served.", _labels("reason", state.refused)),
        _family("in_flight", "gauge", "Requests with a server.", _labels("target", state.in_flight)),
        _family("waiting", "gauge", "Requests sent to nobody yet.", {"": state.waiting}),
        _family("held", "gauge", "1 while new requests wait.", {"": int(state.held)}),
        _family("held_seconds_total", "counter", "Time for which new requests waited.", {"": state.held_seconds_total}),
    ]
    return "".join(families)


def _family(name: str, kind: str, about: str, samples: Mapping[str, float]) -> str:
    head = f"# HELP {PREFIX}{name} {about}\n# TYPE {PREFIX}{name} {kind}\n"
    return head + "".join(f"{PREFIX}{name}{labels} {value}\n" for labels, value in samples.items())


def _labels(name: str, values: Mapping[str, float]) -> dict[str, float]:
    # Neither targets nor reasons can hold a quote, a backslash or a line's end: see `target_url` and `Failure`.
    return {f'{{{name}="{label}"}}': value for label, value in values.items()}
