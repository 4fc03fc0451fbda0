import math

import pytest

from benchmarks.vllm_measures.scraped import Buckets, histogram_quantile, parse

_PAGE = """\
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"} 9.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 10.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.1",model_name="m"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.5",model_name="m"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 10.0
vllm:request_prompt_tokens_bucket{engine="0",le="1.0",model_name="m"} 1.0
"""


def test_a_page_gives_the_known_histograms_with_engines_added_up() -> None:
    assert parse(_PAGE) == {"ttft": Buckets((0.1, 0.5, math.inf), (4.0, 19.0, 20.0))}


def test_what_grew_is_the_difference() -> None:
    now, then = Buckets((0.1, math.inf), (7.0, 9.0)), Buckets((0.1, math.inf), (4.0, 5.0))

    assert now.since(then) == Buckets((0.1, math.inf), (3.0, 4.0))


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (0.2, 0.05),  # Rank 2 of the 4 in the first bucket, whose lower edge is 0.
        (0.4, 0.1),
        (0.65, 0.3),  # Rank 6.5: half of the 5 in the second bucket.
        (0.99, 0.5),  # Beyond the last finite bound Prometheus gives that bound.
    ],
)
def test_quantiles_are_those_of_prometheus(q: float, expected: float) -> None:
    assert histogram_quantile(q, Buckets((0.1, 0.5, math.inf), (4.0, 9.0, 10.0))) == pytest.approx(expected)


def test_an_empty_bucket_is_passed_over() -> None:
    assert histogram_quantile(0.5, Buckets((1.0, 2.0, 3.0, math.inf), (0.0, 0.0, 2.0, 2.0))) == pytest.approx(2.5)


def test_nothing_has_no_quantile() -> None:
    assert math.isnan(histogram_quantile(0.5, Buckets((1.0, math.inf), (0.0, 0.0))))
