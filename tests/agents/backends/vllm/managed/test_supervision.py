"""A managed server's life: starts, waits, and when it is given up."""

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agents.backends.vllm.managed.supervision import STEADY_S, Act, Patience, Phase, Supervision

pytestmark = pytest.mark.slow

PATIENCE = Patience(start_timeout_s=100.0, unhealthy_s=20.0)


def wait_s(tries: int) -> float:
    return float(min(2**tries, 60))


def made() -> Supervision:
    return Supervision(PATIENCE, wait_s)


def test_a_first_start_does_not_wait_and_later_ones_wait_longer_and_longer() -> None:
    life = made()
    now, starts = 0.0, []
    while len(starts) < 5:
        if life.observe(now, alive=False, healthy=False) is Act.START:
            starts.append(now)
        now += 0.5
    waits = [later - earlier for earlier, later in pairwise(starts)]
    assert starts[0] == 0.0
    assert waits == sorted(waits) and waits[0] >= 1 and waits[-1] >= 8
    assert life.failed_starts == 4
    assert life.deaths_within(now) == 4


def test_who_served_steadily_is_started_again_soon() -> None:
    life = made()
    life.observe(0, alive=False, healthy=False)
    for _ in range(5):
        life.observe(1, alive=False, healthy=False)
        life.observe(50, alive=False, healthy=False)
    life.observe(60, alive=True, healthy=True)
    assert life.failed_starts == 0
    life.observe(60 + STEADY_S, alive=True, healthy=True)
    life.observe(200, alive=False, healthy=False)
    assert life.next_start_in_s(200) == 1.0
    assert life.failed_starts == 0


def test_a_start_is_given_up_after_its_time_and_no_earlier() -> None:
    life = made()
    life.observe(0, alive=False, healthy=False)
    assert life.observe(99, alive=True, healthy=False) is Act.WAIT
    assert life.observe(100, alive=True, healthy=False) is Act.STOP
    assert life.observe(101, alive=True, healthy=False) is Act.STOP
    assert life.observe(102, alive=False, healthy=False) is Act.WAIT
    assert life.phase is Phase.BACKING_OFF
    assert life.failed_starts == 1


def test_one_that_served_is_given_up_only_after_failing_all_the_time() -> None:
    life = made()
    life.observe(0, alive=True, healthy=True)
    assert life.observe(10, alive=True, healthy=False) is Act.WAIT
    assert life.observe(29, alive=True, healthy=True) is Act.WAIT
    assert life.observe(31, alive=True, healthy=False) is Act.WAIT
    assert life.observe(50, alive=True, healthy=False) is Act.WAIT
    assert life.observe(51, alive=True, healthy=False) is Act.STOP
    life.observe(52, alive=False, healthy=False)
    assert life.failed_starts == 0


def test_a_server_that_was_found_running_is_not_started_again() -> None:
    life = made()
    assert life.observe(0, alive=True, healthy=False) is Act.WAIT
    assert life.phase is Phase.STARTING
    assert life.observe(5, alive=True, healthy=True) is Act.WAIT
    assert life.phase is Phase.SERVING


def test_deaths_are_forgotten() -> None:
    life = made()
    life.observe(0, alive=True, healthy=True)
    life.observe(10, alive=False, healthy=False)
    assert life.deaths_within(300) == 1
    assert life.deaths_within(400) == 0


class LifeMachine(RuleBasedStateMachine):
    """A server that comes up, falls ill, dies and is replaced in any order, under a supervision that acts."""

    def __init__(self) -> None:
        super().__init__()
        self.life = made()
        self.now = 0.0
        self.alive = self.healthy = False
        self.died_at: float | None = None
        self.ill_since: float | None = None
        self.starts_in_a_row = 0

    def look(self) -> None:
        act = self.life.observe(self.now, alive=self.alive, healthy=self.healthy)
        if act is Act.START:
            assert not self.alive, "started beside a living server"
            if self.died_at is not None:
                assert self.now - self.died_at >= 1.0, "started without a wait"
            self.alive, self.healthy, self.ill_since = True, False, self.now
        elif act is Act.STOP:
            assert self.alive and not self.healthy
            assert self.ill_since is not None
            assert self.now - self.ill_since >= min(PATIENCE.unhealthy_s, PATIENCE.start_timeout_s)
            self.alive, self.died_at = False, self.now
        if not self.alive:
            self.ill_since = None

    @rule(seconds=st.sampled_from([0.2, 1.0, 5.0, 30.0, 120.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(3):
            self.now += seconds / 3
            self.look()

    @rule()
    def comes_up(self) -> None:
        if self.alive:
            self.healthy, self.ill_since = True, None
            self.look()

    @rule()
    def falls_ill(self) -> None:
        if self.alive and self.healthy:
            self.healthy, self.ill_since = False, self.now
            self.look()

    @rule()
    def dies(self) -> None:
        if self.alive:
            self.alive = self.healthy = False
            self.died_at = self.now
            self.look()

    @rule()
    def is_replaced(self) -> None:
        self.alive = self.healthy = True
        self.ill_since = None
        self.life.replaced(self.now)
        self.look()

    @invariant()
    def the_phase_fits_what_lives(self) -> None:
        phase = self.life.phase
        if self.alive and self.healthy:
            assert phase is Phase.SERVING
        if not self.alive and self.died_at is not None:
            assert phase in (Phase.BACKING_OFF, Phase.STOPPING)

    def teardown(self) -> None:
        """Whatever happened, one that comes up is served by, and one that died is started again."""
        for _ in range(400):
            if self.alive:
                break
            self.now += 1.0
            self.look()
        assert self.alive
        self.healthy = True
        self.look()
        assert self.life.phase is Phase.SERVING


TestLife = LifeMachine.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
