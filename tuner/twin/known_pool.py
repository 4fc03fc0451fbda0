"""What telemetry tells of a pool: its requests, its steps by window, its cache and its drafts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.errors import NotFound
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import E2E, PREFILL, QUEUE
from controlplane.contract.planning.whatif import StepWindow, TwinTask
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.nonnegative_fit import Row
from tuner.twin.costs.prompt_spans import prompt_rows
from tuner.twin.costs.telemetry_fit import kv_tokens, piece_of, rows
from tuner.twin.seen_hits import with_seen_hits
from tuner.twin.simulated_engine import EngineShape
from tuner.workload.rescale import cut

FEWEST_REQUESTS, FEWEST_WINDOWS = 30, 8
_AMPLE_BLOCKS = 4


@dataclass(frozen=True)
class Known:
    """What telemetry tells of the pool. Seconds since `begin`, its first request; longest_s: all but one request in a
    hundred last no longer; half_s: half of the requests came before; until_s: what began later may still run."""

    task: TwinTask
    workload: Workload
    begin: datetime
    records: Sequence[RequestRecord]
    longest_s: float
    half_s: float
    until_s: float
    kv_blocks: int | None

    def at_s(self, record: RequestRecord) -> float:
        return (record.arrival - self.begin).total_seconds()

    def rows(self, to_s: float) -> list[Row]:
        """Of the windows that end by then, in their order."""
        found = rows(self.records, self._windows(to_s), piece_of(self.task.config))
        if len(found) < FEWEST_WINDOWS:
            raise NotFound(
                f"pool {self.task.asked.pool}: {len(found)} windows with steps in the part of the span that the twin "
                f"is fitted to, of {FEWEST_WINDOWS} or more: ask for a longer window_s, or wait for traffic",
                field="window_s",
            )
        return found

    def prompt_rows(self, to_s: float) -> list[Row]:
        """Of the time of prompts in the same windows."""
        return prompt_rows(self.records, self._windows(to_s), piece_of(self.task.config))

    def largest_piece(self, config: EngineConfig) -> int:
        """Tokens of the largest piece of a prompt that this computes in one step, but for one prompt in twenty."""
        prompts = np.quantile([one.prompt_tokens - one.cached_tokens for one in self.records], 0.95)
        return max(1, min(piece_of(config), round(float(prompts) * self.task.asked.prompts)))

    def _windows(self, to_s: float) -> list[StepWindow]:
        """In the first ones requests still ran that came before the span, and are not known: they are left out, as far
        as enough others are there."""
        begin_s = self.begin.timestamp()
        since_s = begin_s + min(self.longest_s, self.half_s / 4)
        chosen = [one for one in self.task.windows if since_s <= one.start_s <= begin_s + to_s - one.width_s]
        return sorted(chosen, key=lambda one: one.start_s)


def known_of(task: TwinTask) -> Known:
    """Raises `NotFound` where there is too little to fit to."""
    records = sorted(
        (
            one
            for one in task.records
            if one.output_tokens and {QUEUE.short, PREFILL.short, E2E.short} <= one.parts.keys()
        ),
        key=lambda one: one.arrival,
    )
    if len(records) < FEWEST_REQUESTS:
        raise NotFound(
            f"pool {task.asked.pool}: {len(records)} finished requests in the last {task.asked.window_s:g} s; the twin "
            f"wants {FEWEST_REQUESTS} or more: ask for a longer window_s, or wait for traffic",
            field="window_s",
        )
    workload = cut(with_seen_hits(task.workload, records), 0, len(task.workload.requests))
    begin = task.workload.start + timedelta(milliseconds=task.workload.requests[0].timestamp)
    whole_s = (task.workload.end - begin).total_seconds()
    longest_s = float(np.quantile([one.parts[E2E.short] for one in records], 0.99))
    half_s = (records[len(records) // 2].arrival - begin).total_seconds()
    held = kv_tokens(records, task.windows)
    blocks = None if held is None else max(1, round(held / task.workload.block_size))
    return Known(task, workload, begin, records, longest_s, half_s, max(half_s, whole_s - longest_s), blocks)


def drafts_of(known: Known) -> Drafts:
    task = known.task
    windows, config = task.windows, task.config
    seen = Drafts.seen(
        sum(window.drafted for window in windows),
        sum(window.accepted for window in windows),
        sum(window.deliveries for window in windows),
        config.draft_length(1),
    )
    return seen.at_places(task.drafted_at, task.accepted_at)


def shape_of(known: Known, prompts: float, outputs: float) -> EngineShape:
    """An unknown KV cache is taken as ample; a known one holds the largest request at least, for it was served."""
    size = known.task.workload.block_size
    largest = max(one.input_length * prompts + one.output_length * outputs for one in known.workload.requests)
    one = int(largest // size) + 2
    blocks = known.kv_blocks
    if blocks is None:
        blocks = min(1_000_000, _AMPLE_BLOCKS * one * known.task.config.max_num_seqs)
    return EngineShape(max(blocks, one), size)
