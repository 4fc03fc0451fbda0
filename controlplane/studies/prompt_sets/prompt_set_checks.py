"""Whether prompts can be kept: what is packed, unpacked once within bounds, and looked at. Pure.

Guarantee: what is kept is text that a worker can replay; however it was packed, looking takes bounded memory.
"""

from controlplane.contract.bodies.workload import PromptFigures, PromptSetCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_prompts import Prompt, unpacked_prompts
from controlplane.contract.planning.traffic_figures import percentiles

FEWEST, MOST = 5, 20_000
MOST_TOKENS = 2**24


def checked_prompts(wanted: PromptSetCreate) -> list[Prompt]:
    """What is packed. Raises `BadRequest` that says what is wrong."""
    try:
        found = unpacked_prompts(wanted.prompts)
    except ValueError as error:
        told = str(error).splitlines()[0][:200]
        raise BadRequest(f"prompts: no packed prompts ({told})", field="prompts") from None
    if not FEWEST <= len(found) <= MOST:
        raise BadRequest(f"prompts: wants {FEWEST} to {MOST:,}, got {len(found):,}", field="prompts")
    for place, one in enumerate(found, 1):
        if (one.max_tokens or 0) > MOST_TOKENS:
            raise BadRequest(f"prompts: prompt {place}: max_tokens is above {MOST_TOKENS:,}", field="prompts")
    return found


def prompt_figures(prompts: list[Prompt]) -> PromptFigures:
    return PromptFigures(
        prompts=len(prompts),
        characters=percentiles([len(one.text) for one in prompts]),
        with_max_tokens=sum(one.max_tokens is not None for one in prompts),
    )
