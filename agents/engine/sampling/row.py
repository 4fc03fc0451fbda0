"""A place whose token is sampled in a step: the parameters of its request, its number, and what came before it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agents.engine.request.params import SamplingParams
from agents.engine.request.token_history import TokenHistory

if TYPE_CHECKING:
    from agents.engine.scheduling.step_plan import Work


class Row(NamedTuple):
    """place: the number of output tokens before it. history, and this step's drafts before it, matter to penalties."""

    params: SamplingParams
    place: int
    history: TokenHistory | None = None
    drafts: Sequence[int] = ()


def rows_of(work: "Work") -> list[Row]:
    """A work's places: one for each draft and one more."""
    request = work.request
    params, first = request.params, request.num_outputs
    if not params.penalised:
        return [Row(params, first + offset) for offset in range(len(work.drafts) + 1)]
    history = request.history
    if history is None:
        history = request.history = TokenHistory()
    history.extend(request.tokens, request.prompt_length)
    return [Row(params, first + offset, history, work.drafts[:offset]) for offset in range(len(work.drafts) + 1)]
