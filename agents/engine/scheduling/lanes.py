"""How a step's prompt tokens are divided between short prompts and the lane for long ones.

Guarantee: long prompts get an eighth of the step's budget at least (one token at least when a long one is the foremost
of all that run), and at most `long_prefill_share` of it as long as the step computes anything else; short prompts and
decodes come before whatever is left. A straggler thus neither blocks short requests nor starves.
"""

from collections.abc import Sequence

from agents.engine.scheduling.policy import Policy
from agents.engine.scheduling.request import Request

_FLOOR_SHARE = 8


def kept_for_prompts(policy: Policy, running: Sequence[Request], budget: int) -> tuple[int, int]:
    """(tokens kept for long prompts, for short ones) before decodes take theirs. `running` is by rank."""
    if not running:
        return 0, 0
    first = running[0].remaining
    kept_for_long = 0
    if policy.long_prompt_threshold and any(policy.is_long(request.remaining) for request in running):
        kept_for_long = max(budget // _FLOOR_SHARE, 1 if policy.is_long(first) else 0)
    # The foremost request is never held up by decodes of others, not even under a budget of one token.
    return kept_for_long, 1 if first > 1 and not policy.is_long(first) else 0


def most_for_long(policy: Policy, budget: int, kept: int, left: int, *, alone: bool) -> int:
    """Tokens that long prompts may take together of the `left` ones. alone: the step computes nothing else."""
    return left if alone else min(left, max(1, kept, int(budget * policy.long_prefill_share)))


def take_turns(decoding: list[Request], places: int, turn: int) -> list[Request]:
    """Which decodes a step computes when it has places for some only: the foremost, and others by turns.

    Each is computed once in any `ceil((n - 1) / (places - 1))` steps while the same n decode.
    """
    if len(decoding) <= places:
        return decoding
    others = len(decoding) - 1
    chosen = {0} | {1 + (turn + offset) % others for offset in range(places - 1)} if places else set()
    return [request for place, request in enumerate(decoding) if place in chosen]
