"""`python -m tuner.twin [--vllm-python PATH]`: reads a `TwinTask` from standard input and writes a `WhatIf`, or the
contract's error.

The service starts it for each question: the twin imports the engine's scheduler, which the service may not, and its
work takes no turn of the service's own.
"""

import argparse
import sys
from pathlib import Path

from controlplane.contract.errors import BadRequest, TailwrightError
from controlplane.contract.planning.whatif import TwinTask, WhatIf
from tuner.twin.forecast import forecast
from tuner.twin.vllm_twin import vllm_planner


def main() -> int:
    import json

    parser = argparse.ArgumentParser(prog="python -m tuner.twin")
    parser.add_argument("--vllm-python", type=Path, help="of an environment with vLLM, for pools that run it")
    vllm_python = parser.parse_args().vllm_python
    try:
        task = TwinTask.model_validate_json(sys.stdin.buffer.read())
        answer = _answer(task, vllm_python).model_dump_json()
    except TailwrightError as error:
        answer = json.dumps({**error.body(), "status": error.status})
    sys.stdout.write(answer)
    return 0


def _answer(task: TwinTask, vllm_python: Path | None) -> WhatIf:
    if task.engine == "embedded":
        return forecast(task)
    if vllm_python is None:
        raise BadRequest("pool: it runs vLLM, and no Python with vLLM was named (--vllm-python)", field="pool")
    with vllm_planner(vllm_python) as planner:
        return forecast(task, planner)


if __name__ == "__main__":
    sys.exit(main())
