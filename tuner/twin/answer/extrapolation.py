"""In what a question goes beyond what the pool has served: there the twin's fit was not tried. Pure."""

from controlplane.contract.knobs import MAX_NUM_BATCHED_TOKENS as BUDGET
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.whatif import TwinTask
from controlplane.contract.share_text import share_text
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.pool_run import PoolRun

_BEYOND = 1.25
"""So much more than was seen is still called seen."""


def beyond(task: TwinTask, config: EngineConfig, as_is: PoolRun, changed: PoolRun, drafts: Drafts) -> list[str]:
    """A sentence for each; empty: the forecast is calibrated."""
    found = []
    if changed.most_running > _BEYOND * as_is.most_running:
        found.append(f"{changed.most_running} requests run at once, {as_is.most_running} is the most that were seen")
    if task.asked.prompts > _BEYOND or task.asked.outputs > _BEYOND:
        found.append("contexts are longer than those that were seen")
    if config.max_num_batched_tokens > _BEYOND * task.config.max_num_batched_tokens:
        found.append(
            f"{BUDGET} of {config.max_num_batched_tokens} allows steps larger than those of "
            f"{task.config.max_num_batched_tokens} that were seen"
        )
    if config.num_speculative_tokens != task.config.num_speculative_tokens:
        found += _of_drafts(drafts, config)
    if task.asked.model_parallel > 1:
        found.append(
            f"no model over {task.asked.model_parallel} times as many devices was seen: each is taken to read and "
            "multiply its share, between none and all of a step's fixed part to be split, and what devices exchange "
            "is not counted"
        )
    if changed.busy > 0.98 > as_is.busy:
        found.append("replicas have no idle time left, so that queues grow with the span and no quantile is steady")
    return found


def untold(tokens: int, low_s: float, high_s: float) -> list[str]:
    """Of a step with a piece of so many tokens of a prompt, which costs between these for all that was seen."""
    if high_s <= _BEYOND**2 * low_s:
        return []
    return [
        f"what a step with {tokens} tokens of a prompt costs is not told by those that were seen: between "
        f"{1e3 * low_s:.3g} and {1e3 * high_s:.3g} ms, both of which the interval holds"
    ]


def _of_drafts(drafts: Drafts, config: EngineConfig) -> list[str]:
    """Of drafts of another length."""
    places = len(drafts.kept)
    if not places:
        return ["no drafts were seen, so none are taken to be kept"]
    if not drafts.by_place:
        return ["longer drafts are taken to be kept as often as those that were seen"]
    found = ["drafts of another length were not seen: proposing them is taken to cost what it did"]
    if max(map(config.draft_length, range(1, config.max_num_seqs + 1))) > places:
        found.append(
            f"drafts were seen up to token {places}: those behind it are taken to be kept as often as it is, "
            f"{share_text(drafts.kept[-1])} where all before them were"
        )
    return found
