"""The shortest undisturbed time of each way counts. Clock and run queue are made up."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agents.engine.quantization.trial import ROUNDS, ROWS, Times, times_by, times_of

SAMPLES = {count: torch.zeros((count, 8)) for count in ROWS}


@dataclass
class Machine:
    """Each call of a way takes the next of its times, and lets threads wait for so much of it."""

    now: float = 0.0
    waited: float = 0.0
    order: list[str] = field(default_factory=list)

    def way(self, name: str, taken: Callable[[int], tuple[float, float]]) -> Callable[[Tensor], Tensor]:
        def call(rows: Tensor) -> Tensor:
            seconds, waiting = taken(len(self.order))
            self.order.append(name)
            self.now += seconds
            self.waited += waiting
            return rows

        return call

    def times(self, ways: dict[str, Callable[[Tensor], Tensor]], deadline: float = 1e9) -> Times:
        return times_by(ways, 4, SAMPLES, deadline, lambda: self.now, lambda: self.waited)


def test_ways_take_turns_and_the_shortest_time_counts() -> None:
    machine = Machine()
    ways = {
        "a": machine.way("a", lambda call: ((5.0, 1.0, 9.0)[call % 3], 0.0)),
        "b": machine.way("b", lambda call: (2.0, 0.0)),
    }
    assert machine.times(ways) == Times({"a": dict.fromkeys(ROWS, 1.0), "b": dict.fromkeys(ROWS, 2.0)}, quiet=True)
    assert machine.order == ["a", "b"] * len(ROWS) * ROUNDS


def test_a_call_in_which_threads_waited_does_not_count() -> None:
    machine = Machine()

    def taken(call: int) -> tuple[float, float]:
        return (3.0, 0.01) if call >= len(ROWS) else (1.0, 0.5)  # The quickest would be the disturbed first round.

    assert machine.times({"a": machine.way("a", taken)}) == Times({"a": dict.fromkeys(ROWS, 3.0)}, quiet=True)


def test_what_was_always_disturbed_says_so() -> None:
    machine = Machine()
    ways = {"a": machine.way("a", lambda call: (1.0, 0.0)), "b": machine.way("b", lambda call: (2.0, 1.0))}
    assert machine.times(ways) == Times({"a": dict.fromkeys(ROWS, 1.0), "b": dict.fromkeys(ROWS, 2.0)}, quiet=False)


def test_one_round_is_finished_whatever_the_time() -> None:
    machine = Machine(now=1.0)
    found = machine.times({"a": machine.way("a", lambda call: (0.0, 0.0))}, deadline=0.0)
    assert found == Times({"a": dict.fromkeys(ROWS, 0.0)}, quiet=True)


def test_on_this_machine_everything_is_timed() -> None:
    found = times_of({"a": lambda rows: rows @ rows.T}, 4, 8, torch.float32, deadline=0.0)
    assert found.seconds["a"].keys() == set(ROWS) and all(taken > 0 for taken in found.seconds["a"].values())
