import pytest

from benchmarks.engine_rivals.decode_clock import DecodeClock


def test_the_rate_counts_what_comes_after_every_first_token() -> None:
    clock = DecodeClock(2)
    start = clock._began
    clock.step([1], start + 1.0)  # The first request alone.
    clock.step([3, 1], start + 3.0)  # Both have begun: decoding begins here.
    clock.step([4, 2], start + 4.0)
    found = clock.result([[0] * 5, [0] * 3], start + 5.0)
    assert found["first_s"] == pytest.approx(3.0)
    assert found["decode_s"] == pytest.approx(2.0)
    assert found["total_s"] == pytest.approx(5.0)
    assert found["decode_tokens"] == 4
