import json

from benchmarks.vllm_measures.raw_values import values_between


def _finished(reason: str, e2e: float) -> dict[str, object]:
    return {"reason": reason, "e2e": e2e, "queue": 0.1, "prefill": 0.2, "decode": 0.3}


def _line(time: float, **told: object) -> str:
    return json.dumps({"time": time, "ttft": [], "itl": [], "finished": [], **told}) + "\n"


def test_values_are_those_of_the_stretch_of_time() -> None:
    lines = [
        _line(9.9, ttft=[1.0]),
        _line(10.0, ttft=[2.0], itl=[0.01, 0.02]),
        _line(14.9, itl=[0.03], finished=[_finished("length", 4.0), _finished("stop", 5.0)]),
        _line(15.0, ttft=[3.0]),
    ]

    found = values_between(lines, 10.0, 15.0)

    assert found["ttft"] == [2.0]
    assert found["itl"] == [0.01, 0.02, 0.03]
    assert found["e2e"] == [4.0, 5.0]
    assert (found["queue"], found["prefill"], found["decode"]) == ([0.1, 0.1], [0.2, 0.2], [0.3, 0.3])


def test_requests_that_did_not_end_by_themselves_do_not_count() -> None:
    assert values_between([_line(1.0, finished=[_finished("abort", 4.0)])], 0.0, 2.0)["e2e"] == []


def test_a_line_that_is_being_written_is_left_out() -> None:
    assert values_between([_line(1.0, ttft=[1.0]), '{"time": 1.5, "tt'], 0.0, 2.0)["ttft"] == [1.0]
