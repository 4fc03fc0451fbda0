"""The time in which prompts were computed, as rows of its own for a fit, from requests' waterfalls. Pure.

Where all windows of a pool are alike, each has as many prompts as decodes, and nothing in them tells what either costs.
But a step that computes a prompt lies between that request's first schedule and its first token: where such spans of a
node overlap they are the same steps, and who had its first token by then and not its last decodes in each of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.planning.whatif import StepWindow
from tuner.twin.costs.nonnegative_fit import Row
from tuner.twin.costs.step_terms import summed
from tuner.twin.costs.telemetry_fit import SAME_STEP_S, Computed, computed_by_node, prompt_terms, stretch_of


def prompt_rows(records: Iterable[RequestRecord], windows: Sequence[StepWindow], piece: int) -> list[Row]:
    """A row for each of these windows in which prompts began to be computed. piece: the most of one prompt that a step
    may compute."""
    wanted = {(window.node, round(window.start_s / window.width_s)) for window in windows}
    width_s = windows[0].width_s if windows else 1.0
    deliveries = sum(window.deliveries for window in windows)
    drafted = sum(window.drafted for window in windows) / deliveries if deliveries else 0.0
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for node, computed in computed_by_node(records).items():
        computed.sort(key=lambda one: one[0].scheduled_s)
        coming, running = computed[::-1], list[Computed]()
        for together in _overlapping(computed):
            start_s, end_s = together[0][0].scheduled_s, max(span.first_token_s for span, _ in together)
            while coming and coming[-1][0].scheduled_s < end_s:
                running.append(coming.pop())
            running = [one for one in running if one[0].last_token_s > start_s]
            at = (node, int(start_s // width_s))
            if at in wanted:
                found[at].append(_row(together, running, start_s, end_s, piece, drafted))
    return [
        Row(summed(row.terms for row in several), sum(row.seconds for row in several), stretch_of(window))
        for (_, window), several in sorted(found.items())
    ]


def _overlapping(computed: Sequence[Computed]) -> Iterator[list[Computed]]:
    """Of these, by their first schedule: requests whose prompts were computed at the same time, or one through the
    other. Those that tell no time for it are left out."""
    together: list[Computed] = []
    until_s = 0.0
    for one in computed:
        span = one[0]
        if span.first_token_s <= span.scheduled_s:
            continue
        if together and span.scheduled_s >= until_s:
            yield together
            together = []
        until_s = max(until_s, span.first_token_s)
        together.append(one)
    if together:
        yield together


def _row(
    together: Sequence[Computed],
    running: Sequence[Computed],
    start_s: float,
    end_s: float,
    piece: int,
    drafted: float,
) -> Row:
    """drafted: tokens for each decode."""
    prompts = [prompt_terms(record, piece) for _, record in together]
    ended = sorted(span.first_token_s for span, _ in together)
    at_least = 1 + sum(after - before > SAME_STEP_S for before, after in pairwise(ended))
    steps = max(at_least, *(chunks for _, chunks, *_ in prompts))
    rows = context = 0.0
    for span, record in running:
        decodes_s = min(span.last_token_s, end_s) - max(span.first_token_s, start_s)
        if decodes_s > 0.0:
            share = steps * decodes_s / (end_s - start_s)
            rows, context = rows + share, context + share * (record.prompt_tokens + record.output_tokens / 2)
    tokens, chunks, sampled, read, attended = (sum(column) for column in zip(*prompts, strict=True))
    decodes = rows * (1.0 + drafted)
    return Row((steps, tokens + decodes, chunks, sampled + decodes, read + context, attended), end_s - start_s)
