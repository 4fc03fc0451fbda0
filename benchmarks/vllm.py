"""vLLM with Tailwright beside it, measured on real servers; benchmarks/README.md tells how to have a vLLM.

    python benchmarks/vllm.py [--vllm-python P] [--model DIR] [--sections percentiles,throughput,...] [--rounds N]
                              [--seed 1] [--quick]

Prints Markdown for docs/benchmarks.md on standard output and progress on standard error. A section that fails is named
and does not end the others; every process it started ends with it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.vllm_measures.command import main

    sys.exit(main(__doc__))
