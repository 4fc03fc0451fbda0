"""`python -m tuner.twin`: reads a `TwinTask` from standard input and writes a `WhatIf`, or the contract's error.

The service starts it for each question: the twin imports the engine's scheduler, which the service may not, and its
work takes no turn of the service's own.
"""

import sys

from controlplane.contract.errors import TailwrightError
from controlplane.contract.planning.whatif import TwinTask
from tuner.twin.forecast import forecast


def main() -> int:
    import json

    try:
        answer = forecast(TwinTask.model_validate_json(sys.stdin.buffer.read())).model_dump_json()
    except TailwrightError as error:
        answer = json.dumps({**error.body(), "status": error.status})
    sys.stdout.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
