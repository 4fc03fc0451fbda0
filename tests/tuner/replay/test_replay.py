"""A replay is open-loop, and what it measures is what the server did."""

import asyncio
import threading
from pathlib import Path

import pytest
from sse_engine import SseEngine

from controlplane.contract.bodies.workload import WorkloadRequest
from tuner.replay.http_stream import Answer, Target
from tuner.replay.load_generator import Traffic
from tuner.replay.lost_cause import Bound, above_wanted
from tuner.replay.replay import Stopped, run_replay
from tuner.workload.generate import CONV, fitted
from tuner.workload.trace import workload_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def _workload(count: int, gap_ms: float, output: int = 5):
    return workload_of(
        WorkloadRequest(timestamp=index * gap_ms, input_length=20, output_length=output) for index in range(count)
    )


def _prompts(count: int) -> list[list[int]]:
    return [[index] * 20 for index in range(count)]


@pytest.mark.clock
def test_times_are_the_servers_delays(engine: SseEngine) -> None:
    engine.prefill, engine.gap = (lambda _, __: 0.1), (lambda _, __: 0.02)
    result = run_replay(_workload(10, 30), _prompts(10), engine.url, model="m")
    assert not result.errors and result.cut == 0 and result.held == 0
    assert result.quantile("ttft", 0.5) == pytest.approx(0.1, abs=0.04)
    assert result.quantile("itl", 0.5) == pytest.approx(0.02, abs=0.01)
    assert result.quantile("e2e", 0.5) == pytest.approx(0.18, abs=0.06)
    assert all(timing.output_tokens == 5 and len(timing.gaps_s) == 4 for timing in result.timings)
    measurement = result.measurement()
    assert measurement.requests == 10 and "ttft:0.95" in measurement.quantiles
    assert result.lateness_p99_s < 0.05


def test_a_slow_server_does_not_slow_the_arrivals(engine: SseEngine) -> None:
    engine.together = 20
    result = run_replay(_workload(20, 20, output=1), _prompts(20), engine.url, model="m", deadline_s=60)
    assert not result.errors and result.cut == 0, "the last arrives before the first is answered"
    assert min(timing.lateness_s for timing in result.timings) > -0.001, "and none before its time"
    assert result.duration_s > 0.99 * 0.38


def test_what_is_sent_ahead_counts_nowhere(engine: SseEngine) -> None:
    ahead = 6
    engine.gap = lambda _, __: 0.0
    result = run_replay(_workload(46, 10, output=3), _prompts(46), engine.url, model="m", lead_in=ahead)
    assert len(engine.prompts) == 46 and [timing.index for timing in result.timings] == list(range(ahead, 46))
    measurement = result.measurement()
    assert (measurement.requests, measurement.lead_in) == (40, ahead)
    assert measurement.span_s == pytest.approx(0.4), "from the last of those ahead to the last of all"
    assert len(result.samples["ttft"]) == 40 and result.settled_after is not None


def test_a_bound_is_of_what_counts(engine: SseEngine) -> None:
    """All but one of those ahead wait forever: no quantile of the others is above anything for that."""
    engine.prefill = lambda e, length: 60.0 if length == 21 else 0.0
    prompts = [[1] * (21 if place < 3 else 20) for place in range(6)]
    late = [Bound("ttft", 0.5, 1.0)]
    result = run_replay(_workload(6, 1), prompts, engine.url, model="m", lead_in=3, bounds=late, deadline_s=2.5)
    assert result.lost is None and len(result.timings) == 3 and not any(timing.cut for timing in result.timings)


def test_the_safety_limit_is_counted_and_its_waiting_is_latency(engine: SseEngine) -> None:
    engine.prefill = lambda _, __: 0.2
    result = run_replay(_workload(4, 1, output=1), _prompts(4), engine.url, model="m", max_in_flight=1)
    assert result.held == 3
    assert 0.99 * 4 * 0.2 <= (result.quantile("ttft", 1.0) or 0) <= result.duration_s


def test_the_deadline_cuts_and_gives_lower_bounds(engine: SseEngine) -> None:
    engine.prefill = lambda _, length: 5.0
    result = run_replay(_workload(3, 10), _prompts(3), engine.url, model="m", deadline_s=0.4)
    assert result.cut == 3 and 0.99 * 0.4 < result.duration_s < 5.0 / 2
    for timing in result.timings:
        (bound_s,) = timing.samples()["ttft"]
        assert timing.scheduled_s + timing.lateness_s + timing.connect_s + bound_s == pytest.approx(
            result.duration_s, rel=0.1
        )


def test_errors_are_told(engine: SseEngine) -> None:
    engine.fail_status = 429
    result = run_replay(_workload(2, 1), _prompts(2), engine.url, model="m")
    assert [timing.error[:8] for timing in result.timings] == ["HTTP 429", "HTTP 429"]
    nobody = run_replay(_workload(1, 1), _prompts(1), "http://127.0.0.1:9", model="m")
    assert "cannot connect" in nobody.timings[0].error


def test_stop(engine: SseEngine) -> None:
    stop = threading.Event()
    engine.at_begin = lambda begun: stop.set() if begun == 3 else None
    with pytest.raises(Stopped):
        run_replay(_workload(100, 100), _prompts(100), engine.url, model="m", stop=stop)
    assert len(engine.began) < 100 / 2


def test_a_lost_cause_ends_early_and_tells_what_was_sent(engine: SseEngine) -> None:
    engine.prefill = lambda _, __: 60.0
    bound = Bound("ttft", 0.9, 0.2)
    result = run_replay(_workload(300, 100), _prompts(300), engine.url, model="m", bounds=[bound])
    assert above_wanted(300, 0.9) <= len(result.timings) < 300, "what was never sent is no request"
    assert not result.errors and result.cut == len(result.timings)
    assert (result.quantile("ttft", 0.9) or 0) > 0.2


def test_a_bound_that_can_be_kept_ends_nothing(engine: SseEngine) -> None:
    result = run_replay(_workload(20, 50), _prompts(20), engine.url, model="m", bounds=[Bound("ttft", 0.5, 60.0)])
    assert result.lost is None and len(result.timings) == 20 and result.cut == 0


async def _answer_from(pieces: list[bytes]) -> Answer:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answer = Answer()
    target = Target(f"http://127.0.0.1:{port}")
    await asyncio.wait_for(target.post(b"", answer), 60)
    target.close()
    server.close()
    return answer


EVENT = b'data: {"choices": [{"text": "a"}]}\n\n'


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_answers_in_any_pieces() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 7}}\n\n'
    whole = head + _chunk(EVENT) + _chunk(EVENT + usage) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    for size in (1, 7, len(whole)):
        answer = asyncio.run(_answer_from([whole[i : i + size] for i in range(0, len(whole), size)]))
        assert (answer.error, len(answer.events), answer.output_tokens) == ("", 2, 7)


def test_a_broken_stream_is_an_error_and_an_unframed_one_is_not() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert "closed" in asyncio.run(_answer_from([chunked, _chunk(EVENT)])).error
    plain = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    answer = asyncio.run(_answer_from([plain, EVENT, EVENT]))
    assert (answer.error, len(answer.events)) == ("", 2)
    assert "HTTP" in asyncio.run(_answer_from([chunked + b"zz\r\n"])).error


@pytest.mark.clock
def test_traffic_balances_changes_its_rate_and_stops(engine: SseEngine) -> None:
    async def run() -> Traffic:
        shape = fitted(CONV, max_input=128, max_output=8)
        corpus = list(range(5000))
        traffic = Traffic([engine.url, engine.url + "/"], model="m", corpus=corpus, shape=shape, rate=5, seed=1)
        running = asyncio.create_task(traffic.run(drain_s=5))
        await asyncio.sleep(0.5)
        few = traffic.counts["sent"]
        traffic.control({"rate": 100})
        await asyncio.sleep(1.0)
        many = traffic.counts["sent"] - few
        assert few <= 12 and 50 <= many <= 160
        traffic.paused = True
        await asyncio.sleep(0.3)
        paused = traffic.counts["sent"]
        await asyncio.sleep(0.3)
        assert traffic.counts["sent"] == paused
        traffic.stop()
        await running
        return traffic

    traffic = asyncio.run(run())
    assert traffic.counts["finished"] == traffic.counts["sent"] and traffic.counts["failed"] == 0
    a, b = traffic.by_target.values()
    assert abs(a - b) <= 1
    assert "ttft_p99_s" in traffic.progress()
