"""vLLM's text is read as it truly is: recorded from vLLM 0.32, and with the names of older releases."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.backends.vllm.measures import vllm_metric_names
from agents.backends.vllm.measures.growth import growth
from agents.backends.vllm.measures.scrape_reading import Reading, parse

DATA = Path(__file__).resolve().parents[1] / "data"


def recorded(name: str, time_s: float = 1000.0) -> Reading:
    return parse((DATA / f"metrics-{name}.txt").read_text(), time_s)


def test_a_recorded_answer_of_vllm_0_32() -> None:
    found = recorded("0.32-second")
    assert found.model == "m"
    assert found.started == pytest.approx(1795255556.99)
    assert found.gauges == {"kv_usage": 0.0, "running": 0.0, "waiting": 0.0}
    assert found.cache_config["block_size"] == "128"
    grown = growth(None, found)
    assert grown.requests == {"length": 70}
    assert grown.counts == {
        "prompt_tokens": 3288,
        "output_tokens": 1680,
        "delivered_tokens": 1610,  # Less one for the first delivery of each of the 70 requests.
        "prefix_queries": 3288,
        "draft_tokens": 1614,
        "accepted_tokens": 1596,
    }
    assert {short: one.count for short, one in grown.buckets.items()} == {
        "ttft": 70, "itl": 298, "tpot": 70, "e2e": 70, "queue": 70, "prefill": 70, "decode": 70
    }  # fmt: skip
    ttft = grown.buckets["ttft"]
    assert ttft.total == pytest.approx(52.873796224594116)
    assert ttft.counts[:8] == [0, 0, 0, 3, 16, 13, 4, 0]
    assert ttft.bounds[0] == 0.001 and len(ttft.counts) == len(ttft.bounds) + 1


def test_between_two_recorded_answers_lies_what_was_asked_between() -> None:
    grown = growth(recorded("0.32-first"), recorded("0.32-second", 1010.0))
    assert grown.requests == {"length": 30}
    assert {one.count for short, one in grown.buckets.items() if short != "itl"} == {30}
    assert grown.counts["output_tokens"] == 30 * 24


def test_names_of_older_releases() -> None:
    found = recorded("old-names")
    grown = growth(None, found)
    assert found.started is None and found.model == "old"
    assert found.gauges == {"kv_usage": 0.25, "running": 3.0, "waiting": 2.0}
    assert grown.requests == {"stop": 4, "length": 1}
    assert grown.counts == {"prompt_tokens": 800, "output_tokens": 120, "prefix_queries": 800, "prefix_hits": 200}
    assert grown.buckets["itl"].counts == [100, 14, 1]
    assert grown.buckets["queue"].counts == [5, 0]


def test_a_release_that_tells_both_names_is_not_counted_twice() -> None:
    text = (DATA / "metrics-old-names.txt").read_text()
    both = text + text.replace("vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds").replace(
        "gpu_prefix_cache", "prefix_cache"
    ).replace("gpu_cache_usage", "kv_cache_usage")
    grown = growth(None, parse(both, 1.0))
    assert grown.buckets["itl"].count == 115
    assert grown.counts["prefix_queries"] == 800


def test_engines_add_up_and_the_fullest_cache_is_told() -> None:
    text = "\n".join(
        f'{name}{{engine="{engine}",model_name="m"{more}}} {value}'
        for engine, scale in ((0, 1), (1, 2))
        for name, more, value in (
            ("vllm:num_requests_running", "", 2 * scale),
            ("vllm:num_requests_waiting", "", 0),
            ("vllm:kv_cache_usage_perc", "", 0.2 * scale),
            ("vllm:request_success_total", ',finished_reason="stop"', 5 * scale),
            ("vllm:e2e_request_latency_seconds_bucket", ',le="0.3"', 4 * scale),
            ("vllm:e2e_request_latency_seconds_bucket", ',le="+Inf"', 5 * scale),
            ("vllm:e2e_request_latency_seconds_sum", "", 1.5 * scale),
        )
    )
    found = parse(text, 1.0)
    grown = growth(None, found)
    assert found.gauges == {"running": 6.0, "waiting": 0.0, "kv_usage": 0.4}
    assert grown.requests == {"stop": 15}
    assert grown.buckets["e2e"].counts == [12, 3] and grown.buckets["e2e"].total == pytest.approx(4.5)


def test_requests_of_one_token_have_no_time_per_token() -> None:
    text = "\n".join(
        [
            'vllm:request_time_per_output_token_seconds_bucket{le="0.01"} 10',
            'vllm:request_time_per_output_token_seconds_bucket{le="+Inf"} 12',
            "vllm:request_time_per_output_token_seconds_sum 0.5",
            'vllm:request_generation_tokens_bucket{le="1.0"} 7',
            'vllm:request_generation_tokens_bucket{le="+Inf"} 12',
        ]
    )
    assert growth(None, parse(text, 1.0)).buckets["tpot"].counts == [3, 2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>not found</html>",
        "process_start_time_seconds 5.0\n",
        'vllm:request_success_total{finished_reason="stop" 5\n',
        'vllm:request_success_total{finished_reason="stop"} many\n',
        'vllm:request_success_total{finished_reason="stop"} NaN\n',
    ],
)
def test_what_is_not_vllms_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text, 1.0)


def test_requests_that_vllm_turned_away_are_refused_ones() -> None:
    before, now = recorded("0.32-first"), recorded("0.32-second")
    rejected = {
        series: total + 2 if series.sample == vllm_metric_names.REJECTIONS else total
        for series, total in now.totals.items()
    }
    assert growth(before, replace(now, totals=rejected)).requests["refused"] == 4  # Two limits, each twice.


def test_a_counter_that_an_older_agent_did_not_read_tells_nothing_at_first() -> None:
    now = recorded("0.32-second")
    known = {series: total for series, total in now.totals.items() if series.sample != vllm_metric_names.GENERATED}
    assert "delivered_tokens" not in growth(replace(now, totals=known), now).counts
