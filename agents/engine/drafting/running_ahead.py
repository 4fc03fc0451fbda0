"""Drafting token by token with a model that runs ahead of the target.

A draft is the likeliest token after the request's penalties and biases, whatever the request's temperature: drawing it
with the random number that the target will use was kept less often (docs/decisions/0007-drafts-are-points.md).
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from agents.engine.model.runner import Rows
from agents.engine.sampling.adjustments import adjust
from agents.engine.sampling.greedy import argmax
from agents.engine.sampling.row import rows_of
from agents.engine.scheduling.step_plan import Work

Tables = Callable[[Work], Sequence[Sequence[int]]]


def add_drafts(works: Sequence[Work], logits: Tensor) -> None:
    """Append to each work's drafts the likeliest token by its row of logits, which may be overwritten."""
    for place, work in enumerate(works):
        params, request = work.request.params, work.request
        if params.adjusts(request.num_outputs + len(work.drafts)):
            adjust(logits[place : place + 1], rows_of(work)[-1:])
    for work, token in zip(works, argmax(logits), strict=True):
        work.drafts.append(token)


def run_ahead(works: Sequence[Work], forward: Callable[[list[Rows]], Tensor], tables: Tables) -> None:
    """Draft from the last draft on until each work has as many as it wants: a forward pass for each place."""
    place = 1
    while going := [work for work in works if work.draft_count > place]:
        add_drafts(going, forward([Rows([work.drafts[-1]], work.start + place, tables(work), 1) for work in going]))
        place += 1
