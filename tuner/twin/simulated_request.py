"""A request of the simulated engine: the scheduler's own, whose tokens are counted and told apart, not known."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from tuner.twin.token_runs import Key, TokenRuns


@dataclass(slots=True)
class Story:
    """What became of one arrival. Seconds of the engine's clock; None: it did not come to that."""

    arrived_s: float
    scheduled_s: float | None = None
    first_token_s: float | None = None
    ended_s: float | None = None
    outputs: int = 0
    cached_tokens: int = 0
    refused: bool = False


class SimulatedRequest(Request):
    """`tokens` has a zero for each: as many as there are, which is all that the scheduler looks at besides `blocks`."""

    __slots__ = ("_keys", "_runs", "advanced_at", "delivered_s", "story")

    def __init__(self, number: int, prompt: Sequence[int], params: SamplingParams, story: Story) -> None:
        """number: of all requests of an engine; its outputs are of a token of its own."""
        zeros = cast(list[int], bytearray(len(prompt)))  # An eighth of a list; grows and tells its length as one.
        super().__init__(str(number), (0,), params, arrived_at=story.arrived_s)
        self.tokens, self.prompt_length = zeros, len(zeros)
        self.story = story
        self.delivered_s: float | None = None
        """When a step last gave it tokens."""
        self.advanced_at = 0
        """While it is among the steady ones: the step up to which its tokens are counted."""
        self._runs = TokenRuns(prompt)
        self._runs.extend(-1 - number, params.max_tokens)
        self._keys: list[Key] | None = None

    def blocks(self, first: int, end: int, block_size: int) -> Iterable[Hashable]:
        if self._keys is None:
            self._keys = self._runs.keys(self.most_tokens // block_size, block_size)
        return self._keys[first:end]

    def advance(self, steps: int, now: float) -> None:
        """It decoded in so many steps, the last of which ended now."""
        if steps:
            self.tokens.extend(bytes(steps))
            self.num_computed += steps
            self.delivered_s = now
