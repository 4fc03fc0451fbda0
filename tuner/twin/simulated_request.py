"""A request of the simulated engine: the scheduler's own, whose tokens are counted and told apart, not known."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import FinishReason, Request
from tuner.twin.token_runs import Key, TokenRuns

_counted = cast(Callable[[int], list[int]], range)


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
    """`tokens` is a range: it has as many as there are, which is all that the scheduler looks at besides `blocks`."""

    __slots__ = ("_keys", "_most", "_runs", "advanced_at", "delivered_s", "story")

    def __init__(self, number: int, prompt: Sequence[int], params: SamplingParams, story: Story) -> None:
        """number: of all requests of an engine; its outputs are of a token of its own."""
        super().__init__(str(number), (0,), params, arrived_at=story.arrived_s)
        self.prompt_length = len(prompt)
        self._most = self.prompt_length + params.max_tokens
        self.tokens = _counted(self.prompt_length)
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

    def append(self, token: int) -> FinishReason | None:
        count = len(self.tokens) + 1
        self.tokens = _counted(count)
        return FinishReason.LENGTH if count >= self._most else None

    def advance(self, steps: int, now: float) -> None:
        """It decoded in so many steps, the last of which ended now."""
        if steps:
            self.tokens = _counted(len(self.tokens) + steps)
            self.num_computed += steps
            self.delivered_s = now
