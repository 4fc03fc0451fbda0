"""What a node's engine tells of the memory that holds its weights and KV cache.

Guarantee: constants of the engine's process and its weights, never what is free at the moment; so a report changes only
when the configuration does. A figure that is not told is None, and nobody supposes one.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from controlplane.contract.knobs import LARGEST_REPORTED

Bytes = Annotated[int, Field(ge=0, le=LARGEST_REPORTED)]
Tokens = Annotated[int, Field(ge=1, le=LARGEST_REPORTED)]
FormatName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")]


class NodeMemory(BaseModel):
    """Names are vLLM's where it has one. Figures of formats and of a step are lower bounds: padding, scratch memory and
    the runtime's own are not in them."""

    limit_bytes: Bytes | None = Field(
        default=None,
        description="the GPU's memory; of a CPU the machine's, or its control group's limit where less; where the "
        "engine makes its KV cache of the room that is left, what it lets itself use of that",
    )
    weights_bytes: Bytes | None = Field(default=None, description="the weights in the format that runs")
    weights_bytes_by_format: dict[FormatName, Bytes] = Field(
        default={}, max_length=64, description="the weights in each format that the node can be given, at least"
    )
    draft_weights_bytes: Bytes | None = Field(default=None, description="the draft model's weights; 0: there is none")
    kv_cache_memory_bytes: Bytes | None = Field(
        default=None, description="the KV cache, the draft model's part included; fixed while the engine runs"
    )
    kv_cache_least_bytes: Bytes | None = Field(
        default=None,
        description="the smallest KV cache with which the engine starts, where it makes it of the room that is left; "
        "null: its size is fixed",
    )
    kv_cache_size_tokens: Tokens | None = Field(default=None, description="the tokens it holds")
    max_model_len: Tokens | None = Field(default=None, description="most tokens of one request, prompt and output")
    activation_bytes_per_token: Bytes | None = Field(
        default=None, description="what a step holds for each of its tokens at once, at least"
    )
    logits_bytes_per_token: Bytes | None = Field(
        default=None, description="what a step holds for each token whose logits it wants"
    )
    runtime_bytes: Bytes | None = Field(
        default=None, description="what its processes hold beside all that, measured when it started; null: not told"
    )
    swap_holds_both: bool | None = Field(
        default=None, description="whether old and new weights are held at once while the format changes"
    )
