"""`tailwright` with a twin that answers when the test does.

`python -m tests.web.whatif.held_twin FOLDER up ...` is the service; its twin writes to `FOLDER/asked` a line for each
question, its process and the load, and reads its answer of the FIFO `FOLDER/answer`.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import TwinTask, WhatIfCreate

ASKED, ANSWER = "asked", "answer"
_TWIN = "twin"


def twin(folder: Path) -> None:
    task = TwinTask.model_validate_json(sys.stdin.buffer.read())
    with (folder / ASKED).open("a") as asked:
        asked.write(f"{os.getpid()} {task.asked.load:g}\n")
    sys.stdout.write((folder / ANSWER).read_text())


def service(folder: str) -> None:
    from controlplane.app import service as wired
    from controlplane.command.main import main
    from controlplane.whatif import endpoints

    def task_of(asked: WhatIfCreate, *_: Any) -> TwinTask:
        now = datetime(2030, 1, 1, tzinfo=UTC)
        workload = Workload(pool=asked.pool, start=now, end=now, nodes=1, requests=[])
        return TwinTask(asked=asked, config=parse_config({}), workload=workload, records=[], windows=[])

    endpoints._task = task_of
    wired.TWIN = (sys.executable, "-m", "tests.web.whatif.held_twin", folder, _TWIN)  # type: ignore[assignment]
    main()


if __name__ == "__main__":
    named = sys.argv.pop(1)
    if sys.argv[1:2] == [_TWIN]:
        twin(Path(named))
    else:
        service(named)
