"""A model of a large shape that says what the bundled one says: costs of a large model, text of a trained one.

    python -m benchmarks.engine_rivals.widened OUT --hidden 8192 --intermediate 28672 --layers 8

The bundled model's weights are a corner of every matrix. What is beside them never reaches the stream: the embedding,
and the rows and columns that write to it from added heads and neurons, are zero, and further layers write nothing. Rows
that add heads and neurons are random, so that a device multiplies numbers and not zeros in most of its work. Norms over
the wider stream are scaled back, so that in float32 the logits are the bundled model's to rounding. The vocabulary
stays: the head is smaller than in models of such a shape. There is no tokenizer: int4 is rounded without calibration.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from agents.engine.options import BUNDLED

_SPREAD = 0.02
"""Of the random numbers."""


def widen(
    out: Path, hidden: int, intermediate: int, heads: int, kv_heads: int, layers: int, dtype: torch.dtype, seed: int = 1
) -> int:
    """Writes the folder, a file for each layer. heads: as many for each key head as the bundled model has. Returns the
    number of parameters."""
    config = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))
    known = load_file(BUNDLED / "model.safetensors")
    if heads // kv_heads != config["num_attention_heads"] // config["num_key_value_heads"]:
        raise ValueError("another number of heads for each key head than the bundled model's")
    narrow, dim = config["hidden_size"], config["head_dim"]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)

    def norm(name: str) -> Tensor:
        found = torch.zeros(hidden)
        if name in known:
            found[:narrow] = known[name] * math.sqrt(narrow / hidden)
        return found

    def corner(name: str, rows: int, columns: int, spread: float) -> Tensor:
        """The known matrix with random rows below, of no weight where spread is zero, or where none is known."""
        found = torch.zeros((rows, columns), dtype=dtype, device=device)
        own = known.get(name)
        first = 0 if own is None else own.shape[0]
        if spread:
            found[first:].normal_(0.0, spread)
        if own is not None:
            found[:first, : own.shape[1]] = own.to(device, dtype)
        return found.cpu()

    out.mkdir(parents=True, exist_ok=True)
    embedding = "model.embed_tokens.weight"
    table = torch.zeros((config["vocab_size"], hidden))
    table[:, :narrow] = known[embedding]
    files = [{embedding: table.to(dtype), "model.norm.weight": norm("model.norm.weight")}]
    weight_map: dict[str, str] = {}
    count = 0
    for layer in range(-1, layers):
        prefix = f"model.layers.{layer}."
        tensors = files[0] if layer < 0 else {
            f"{prefix}input_layernorm.weight": norm(f"{prefix}input_layernorm.weight"),
            f"{prefix}post_attention_layernorm.weight": norm(f"{prefix}post_attention_layernorm.weight"),
            **{
                name: corner(name, rows, columns, spread)
                for name, rows, columns, spread in (
                    (f"{prefix}self_attn.q_proj.weight", heads * dim, hidden, _SPREAD),
                    (f"{prefix}self_attn.k_proj.weight", kv_heads * dim, hidden, _SPREAD),
                    (f"{prefix}self_attn.v_proj.weight", kv_heads * dim, hidden, _SPREAD),
                    (f"{prefix}self_attn.o_proj.weight", hidden, heads * dim, 0.0),
                    (f"{prefix}mlp.gate_proj.weight", intermediate, hidden, _SPREAD),
                    (f"{prefix}mlp.up_proj.weight", intermediate, hidden, _SPREAD),
                    (f"{prefix}mlp.down_proj.weight", hidden, intermediate, 0.0),
                )
            },
        }  # fmt: skip
        file = f"model-{layer + 1:03}.safetensors"
        save_file(tensors, out / file)
        weight_map |= dict.fromkeys(tensors, file)
        count += sum(tensor.numel() for tensor in tensors.values())
    config |= {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "num_hidden_layers": layers,
        "rms_norm_eps": config["rms_norm_eps"] * narrow / hidden,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    index = {"metadata": {}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index) + "\n", encoding="utf-8")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name, default in (("hidden", 8192), ("intermediate", 28672), ("heads", 64), ("kv-heads", 32), ("layers", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    shape = (given.hidden, given.intermediate, given.heads, given.kv_heads, given.layers)
    print(f"{widen(given.out, *shape, torch.bfloat16) / 1e9:.2f} billion parameters")


if __name__ == "__main__":
    main()
