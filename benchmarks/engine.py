"""The embedded engine measured beside its rivals, interleaved in one run; benchmarks/README.md tells how to have them.

    python benchmarks/engine.py [--sections decode,prefill,...] [--model DIR] [--rounds 5] [--threads 2]
                                [--vllm-python P] [--quick]

Prints Markdown for docs/benchmarks.md on standard output and progress on standard error. What is missing (vLLM, the
real model) is named and left out.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.engine_measures.command import main

    sys.exit(main(__doc__))
