"""The weights of a node file's variants, by the headers of their safetensors files.

Guarantee: a lower bound, or nothing. Plain weights count as if vLLM made them as narrow as it can (two bytes), others
as they lie there. Not told: a variant that is no folder of such files, or that vLLM is told to load in another way.
"""

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from agents.backends.vllm.node_file import NodeFile
from controlplane.contract.knobs import Quantization

_ITEM_BYTES = {
    **dict.fromkeys(("F64", "F32", "F16", "BF16"), 2),
    **{"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1},
    **{"F8_E4M3": 1, "F8_E5M2": 1},
}
_OTHERWISE = ("--quantization", "-q", "--load-format", "--hf-overrides", "--model-loader-extra-config")
"""Arguments with which vLLM's weights are not those of the files."""
_LARGEST_HEADER_BYTES = 100 * 2**20
"""As the format's own reader allows."""


def variant_sizes(node: NodeFile) -> dict[Quantization, int]:
    """Bytes by format, of those that can be known. Raises nothing: a folder that cannot be read is not told."""
    found = {}
    for name, variant in node.variants.items():
        given = [one.partition("=")[0].partition(".")[0] for one in (*node.arguments, *variant.arguments)]
        if not any(one in _OTHERWISE for one in given) and (size := _folder_bytes(Path(variant.model))):
            found[name] = size
    return found


def by_format(sizes: Mapping[Quantization, int], runs: str, held: int) -> dict[str, int]:
    """What each would hold at least, beside what `runs` is held to hold. Where that is less than its files say, vLLM
    loads only a part of them, and the others are reckoned down with it."""
    own = next((size for name, size in sizes.items() if name.value == runs), None)
    share = 1.0 if own is None else min(1.0, held / own)
    return {**{name.value: int(size * share) for name, size in sizes.items()}, runs: held}


def _folder_bytes(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    try:
        tied = bool(json.loads((folder / "config.json").read_bytes()).get("tie_word_embeddings"))
        return sum(_file_bytes(file, tied) for file in sorted(folder.glob("*.safetensors")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _file_bytes(file: Path, tied: bool) -> int:
    """Raises ValueError or KeyError where it is no such file."""
    with file.open("rb") as opened:
        (size,) = struct.unpack("<Q", opened.read(8).ljust(8, b"\0"))
        if size > _LARGEST_HEADER_BYTES:
            raise ValueError("no header")
        header: dict[str, Any] = json.loads(opened.read(size))
    tensors = {name: one for name, one in header.items() if name != "__metadata__"}
    if tied:
        tensors.pop("lm_head.weight", None)  # The embedding again.
    return sum(prod(one["shape"]) * _ITEM_BYTES[one["dtype"]] for one in tensors.values())
