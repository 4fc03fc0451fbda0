"""What the engine knows of its own speed."""

import pytest

from agents.engine.scheduling.throughput import Throughput


def _measured(*steps: tuple[int, float], times: int = 40) -> Throughput:
    throughput = Throughput()
    for _ in range(times):
        for tokens, seconds in steps:
            throughput.step(tokens, seconds)
    return throughput


def test_nothing_is_claimed_before_something_was_measured() -> None:
    throughput = Throughput()
    assert throughput.service_s is None
    assert throughput.wait_s(5, 5000, running=2, seats=2, tokens_per_step=512) is None


def test_steps_of_two_sizes_give_the_cost_of_a_step_and_of_a_token() -> None:
    throughput = _measured((1, 0.0102), (501, 0.1102))  # 10 ms and 0.2 ms for each token.
    fixed, per_token = throughput.step_cost()
    assert fixed == pytest.approx(0.010, rel=0.01) and per_token == pytest.approx(0.0002, rel=0.01)
    # 2,000 tokens in steps of 500: four steps.
    wait_s = throughput.wait_s(4, 2000, running=0, seats=8, tokens_per_step=500)
    assert wait_s == pytest.approx(4 * 0.010 + 2000 * 0.0002, rel=0.01)


def test_single_decodes_do_not_make_a_burst_of_prompts_look_like_a_long_wait() -> None:
    throughput = _measured((1, 0.02))
    assert (throughput.wait_s(9, 4500, running=1, seats=16, tokens_per_step=500) or 0.0) < 1.0


def test_the_cost_follows_a_change() -> None:
    throughput = _measured((10, 0.01))
    for _ in range(300):
        throughput.step(10, 0.05)
    assert throughput.step_cost()[0] + 10 * throughput.step_cost()[1] == pytest.approx(0.05, rel=0.05)


def test_without_a_free_seat_one_waits_until_enough_have_left() -> None:
    throughput = _measured((4, 0.01))
    for _ in range(20):
        throughput.served(8.0)
    # Four leave in 8 s, so one each 2 s: behind three others, the fourth to leave makes room.
    assert throughput.wait_s(3, 30, running=4, seats=4, tokens_per_step=512) == pytest.approx(8.0)
    assert (throughput.wait_s(0, 30, running=3, seats=4, tokens_per_step=512) or 0.0) < 0.1, "a seat is free"
