"""Where the twin is asked: one question at a time, the same one once for all, and none that nobody waits for."""

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.errors import NotFound, Overloaded, Unavailable
from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import (
    ForecastClass,
    ForecastUnderWay,
    Scenario,
    TwinTask,
    WhatIf,
    WhatIfCreate,
)
from controlplane.whatif import forecasting
from controlplane.whatif.twin_desk import TwinDesk
from tests.processes import wait_for

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TWIN = """
import os, sys
from pathlib import Path
sys.stdin.read()
folder = Path(sys.argv[1])
with (folder / "asked").open("a") as asked:
    asked.write(f"{os.getpid()}\\n")
sys.stdout.write((folder / "answer").read_text())
"""
SCENARIO = Scenario(knobs={}, replicas=1, requests=1, refused=0, busy=0.5, cached=0.0, quantiles={})
ASKED = WhatIfCreate(pool="chat")
OTHER = ASKED.model_copy(update={"load": 2.0})
LONG_S = 300.0


def task_of(asked: WhatIfCreate) -> TwinTask:
    workload = Workload(pool=asked.pool, start=NOW, end=NOW, nodes=1, requests=[])
    return TwinTask(asked=asked, config=parse_config({}), workload=workload, records=[], windows=[])


def answer_to(asked: WhatIfCreate) -> WhatIf:
    return WhatIf(
        asked=asked,
        start=NOW,
        end=NOW,
        revision=1,
        forecast_class=ForecastClass.CALIBRATED,
        as_is=SCENARIO,
        changed=SCENARIO,
        measured={},
        error={},
        fit={},
        summary="A forecast is no proof.",
    )


def told_after(desk: TwinDesk, asked: WhatIfCreate, wait_s: float | None = None) -> WhatIf | ForecastUnderWay:
    return desk.forecast(asked, lambda: task_of(asked), wait_s)


class Held:
    """A desk whose twin answers when the test does."""

    def __init__(self, folder: Path, lease_s: float = LONG_S) -> None:
        self._folder = folder
        (folder / "twin.py").write_text(TWIN)
        (folder / "asked").touch()
        os.mkfifo(folder / "answer")
        command = (sys.executable, str(folder / "twin.py"), str(folder))
        self.desk = TwinDesk(command, timeout_s=LONG_S, lease_s=lease_s)

    def processes(self) -> list[int]:
        return [int(line) for line in (self._folder / "asked").read_text().split()]

    def wait_asked(self, count: int = 1) -> int:
        wait_for("the twin is asked", lambda: len(self.processes()) == count)
        return self.processes()[-1]

    def answer(self, asked: WhatIfCreate) -> None:
        (self._folder / "answer").write_text(answer_to(asked).model_dump_json())


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


def test_it_is_told_how_far_it_is_and_then_what_came_of_it(held: Held) -> None:
    told = told_after(held.desk, ASKED, 0.0)
    assert isinstance(told, ForecastUnderWay)
    assert (told.usual_s, told.limit_s) == (None, LONG_S) and 0.0 <= told.elapsed_s < LONG_S
    held.wait_asked()
    held.answer(ASKED)
    assert told_after(held.desk, ASKED) == answer_to(ASKED)
    assert len(held.processes()) == 1
    later = told_after(held.desk, OTHER, 0.0)
    assert isinstance(later, ForecastUnderWay) and later.usual_s is not None and later.usual_s >= told.elapsed_s
    held.wait_asked(2)
    held.answer(OTHER)
    assert told_after(held.desk, OTHER) == answer_to(OTHER)


def test_all_who_ask_the_same_are_told_the_same_of_one_process(held: Held) -> None:
    gathered: list[WhatIfCreate] = []
    together = threading.Barrier(4)

    def gather() -> TwinTask:
        gathered.append(ASKED)
        return task_of(ASKED)

    def ask() -> WhatIf | ForecastUnderWay:
        together.wait()
        return held.desk.forecast(ASKED, gather)

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        held.wait_asked()
        held.answer(ASKED)
        assert [one.result() for one in asking] == [answer_to(ASKED)] * 4
    assert len(held.processes()) == 1 and 1 <= len(gathered) <= 4
    held.desk.forecast(ASKED, gather)
    assert len(held.processes()) == 1, "who asks a moment later is told, too"


def test_another_question_is_refused_until_the_twin_is_free(held: Held) -> None:
    assert isinstance(told_after(held.desk, ASKED, 0.0), ForecastUnderWay)
    gathered: list[str] = []

    def gather() -> TwinTask:
        gathered.append("")
        return task_of(OTHER)

    with pytest.raises(Overloaded, match=r"another forecast is being made \(\d+ s so far\)"):
        held.desk.forecast(OTHER, gather, 0.0)
    assert not gathered, "nothing is read for a question that has no turn"
    held.wait_asked()
    held.answer(ASKED)
    told_after(held.desk, ASKED)
    assert isinstance(held.desk.forecast(OTHER, gather, 0.0), ForecastUnderWay)
    held.wait_asked(2)
    held.answer(OTHER)
    told_after(held.desk, OTHER)


def test_what_is_kept_is_kept_for_a_moment(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    told_after(held.desk, ASKED, 0.0)
    held.wait_asked()
    held.answer(ASKED)
    told_after(held.desk, ASKED)
    monkeypatch.setattr(forecasting, "KEPT_S", -1.0)
    assert isinstance(told_after(held.desk, ASKED, 0.0), ForecastUnderWay)
    held.wait_asked(2)
    held.answer(ASKED)


def test_one_that_nobody_asks_for_is_ended_and_begun_anew_by_who_asks(tmp_path: Path) -> None:
    held = Held(tmp_path, lease_s=0.0)
    assert isinstance(told_after(held.desk, ASKED, 0.0), ForecastUnderWay)
    left = held.wait_asked()
    wait_for("its process is ended", lambda: not is_there(left))
    told = attempted(lambda: told_after(held.desk, OTHER, None), held, OTHER)
    assert told == answer_to(OTHER) and held.processes()[-1] != left


class Watched(forecasting.Forecasting):
    """Tells of each look at who is there, which come while the twin computes."""

    looked = threading.Semaphore(0)

    def _is_left(self) -> bool:
        self.looked.release()
        return super()._is_left()


def test_one_that_somebody_waits_for_is_not_ended(tmp_path: Path) -> None:
    """The lease is over by the first look, and the twin is held for several."""
    held = Held(tmp_path, lease_s=0.0)
    waited_for = Watched(task_of(ASKED), held.desk.command, forecasting.Bounds(LONG_S, 0.0))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waited_for.told, None)
        for _ in range(3):
            waited_for.looked.acquire()
        held.wait_asked()
        held.answer(ASKED)
        assert waiting.result() == answer_to(ASKED)


def test_a_twin_that_begins_late_is_told_all_of_its_task(tmp_path: Path) -> None:
    """More than a pipe holds: it reads its task after several looks, and answers how long that is."""
    late = tmp_path / "late.py"
    late.write_text(
        "import json, sys\nfrom pathlib import Path\n(Path(sys.argv[1]) / 'go').read_text()\n"
        "told = {'code': 'not_found', 'message': str(len(sys.stdin.read())), 'detail': {}}\n"
        "print(json.dumps({'error': told}))\n"
    )
    os.mkfifo(tmp_path / "go")
    task = task_of(ASKED).model_copy(update={"drafted_at": [1.0] * 100_000})
    waited_for = Watched(task, (sys.executable, str(late), str(tmp_path)), forecasting.Bounds(LONG_S, LONG_S))
    for _ in range(3):
        waited_for.looked.acquire()
    (tmp_path / "go").write_text("now")
    with pytest.raises(NotFound, match=rf"^{len(task.model_dump_json())}$"):
        waited_for.told(None)


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def attempted(
    ask: Callable[[], WhatIf | ForecastUnderWay], held: Held, asked: WhatIfCreate
) -> WhatIf | ForecastUnderWay:
    """What is told once the process before is gone from the desk, too."""
    before = len(held.processes())
    with ThreadPoolExecutor(1) as pool:

        def until_free() -> WhatIf | ForecastUnderWay:
            told: list[WhatIf | ForecastUnderWay] = []

            def free() -> bool:
                try:
                    told.append(ask())
                except Overloaded:
                    return False
                return True

            wait_for("the twin is free", free)
            return told[0]

        asking = pool.submit(until_free)
        held.wait_asked(before + 1)
        held.answer(asked)
        return asking.result()


@pytest.mark.parametrize(
    ("program", "error", "said"),
    [
        ("import sys; sys.stdin.read(); sys.exit(3)", Unavailable, "log"),
        ("import sys; sys.exit(3)", Unavailable, "log"),
        ("import threading; threading.Event().wait()", Unavailable, "longer than 0.2 s"),
        ("import sys; sys.stdin.read(); print('" + json.dumps(NotFound("no").body()) + "')", NotFound, "no"),
    ],
    ids=["fails", "reads nothing", "late", "refuses"],
)
def test_what_keeps_it_from_answering_is_told_to_who_waits(program: str, error: type[Exception], said: str) -> None:
    late = "Event" in program
    desk = TwinDesk((sys.executable, "-c", program), timeout_s=0.2 if late else LONG_S)
    with pytest.raises(error, match=said):
        told_after(desk, ASKED)
    with pytest.raises(error, match=said):
        told_after(desk, ASKED, 0.0)


def test_a_twin_that_is_not_there_is_unavailable_and_the_next_question_is_taken(tmp_path: Path) -> None:
    desk = TwinDesk((str(tmp_path / "none"),))
    for asked in (ASKED, OTHER):
        with pytest.raises(Unavailable, match="could not be started"):
            told_after(desk, asked)
