"""What metrics are called."""

from controlplane.contract.on_call.metric_text import metric_name, metric_title


def test_what_is_short_for_words_is_in_capitals_a_part_is_a_word() -> None:
    assert [metric_name(short) for short in ("ttft", "e2e", "prefill")] == ["TTFT", "E2E", "prefill"]
    assert [metric_title(short) for short in ("itl", "prefill", "step_forward")] == ["ITL", "Prefill", "Step forward"]
