"""The command; see the package."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.backends.vllm.variants.checkpoint import write_variant
from agents.backends.vllm.variants.formats import FORMATS, BadVariant, format_named


def main(words: Sequence[str] | None = None) -> int:
    """0: the variant is there; 2: it cannot be made."""
    parser = argparse.ArgumentParser(
        prog="python -m agents.backends.vllm.variants",
        description="Writes a quantized variant of a model, which vLLM loads as it is (compressed-tensors).",
    )
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="a checkpoint folder: config.json, *.safetensors")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="the folder to make")
    parser.add_argument("--format", required=True, metavar="FORMAT", help=" or ".join(FORMATS))
    given = parser.parse_args(words)
    try:
        written = write_variant(given.model, given.out, format_named(given.format))
    except BadVariant as error:
        print(error.message, file=sys.stderr)
        return 2
    print(f"{given.out}: {given.format} {'written' if written else 'is there already'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
