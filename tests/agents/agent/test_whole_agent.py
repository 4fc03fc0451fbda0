"""The agent as a real process between a fake engine and a fake service."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.contract import metrics
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.packed_report import MEDIA_TYPE
from tests.agents.agent.fake_service import FakeService
from tests.agents.backends.fake_engine import FakeEngine, request_events
from tests.agents.conftest import AgentProcess
from tests.agents.served_app import ServedApp
from tests.soak import soak

pytestmark = pytest.mark.slow

Eventually = Callable[..., None]
REQUESTS = metrics.REQUESTS.name
LIVES = soak(4, 6)


def offer(revision: int, **knobs: object) -> opamp_pb2.AgentRemoteConfig:
    body = {"revision": revision, "hash": f"h{revision}", "knobs": {**EngineConfig().knobs(), **knobs}}
    made = opamp_pb2.AgentRemoteConfig(config_hash=f"{revision}:h{revision}".encode())
    made.config.config_map["engine.json"].body = json.dumps(body).encode()
    return made


@pytest.mark.parametrize("takes_packed", [False, True])
def test_reports_reach_the_service_and_a_terminated_agent_leaves_nothing_behind(
    agent_process: AgentProcess,
    engine: FakeEngine,
    service: FakeService,
    eventually: Eventually,
    tmp_path: Path,
    takes_packed: bool,
) -> None:
    service.takes_packed = takes_packed
    agent_process.start()
    eventually(lambda: service.newest("health") is not None)
    for number in range(20):
        engine.emit(*request_events(time.time(), number))
    eventually(lambda: service.counts[REQUESTS] == 20)
    engine.emit(*request_events(time.time(), 20))
    eventually(lambda: service.counts[REQUESTS] == 21)
    engine.emit(*request_events(time.time(), 21))
    time.sleep(0.2)
    assert agent_process.end() == 0
    assert service.counts[REQUESTS] == 22
    assert service.counts[metrics.ITL.name] == 22 * 7
    assert len(service.spans) == 22
    assert service.repeats == 0
    assert bool(service.forms[MEDIA_TYPE]) == takes_packed
    assert abs(service.last[metrics.CLOCK_OFFSET.name]) <= service.last[metrics.CLOCK_OFFSET_ERROR.name] + 0.01
    assert list((tmp_path / "state/spool").glob("*.report")) == []
    assert service.agents[-1].HasField("agent_disconnect")
    assert (tmp_path / "state/credentials.json").stat().st_mode & 0o777 == 0o600
    assert service.enrolments == [{"node": "node-a", "pool": "pool-a", "backend": "embedded", "role": "serving"}]
    numbers = [message.sequence_num for message in service.agents]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_when_the_agent_is_killed_again_and_again(
    agent_process: AgentProcess, engine: FakeEngine, service: FakeService, eventually: Eventually
) -> None:
    chance = random.Random(11)
    number = 0
    for life in range(LIVES):
        # Some answers get lost: the service has counted the body, the agent sees a failure and sends it again.
        for _ in range(chance.randrange(3)):
            service.script.append((500, {}, True))
        for _ in range(chance.randrange(2)):
            service.trace_script.append((503, {"Retry-After": "0"}, True))
        heard = len(service.agents)
        agent_process.start()
        if life != 3:  # One is killed while it starts.
            eventually(lambda heard=heard: len(service.agents) > heard)
        lasts_s = chance.uniform(0.8, 2.2)
        until = time.monotonic() + lasts_s
        while (left_s := until - time.monotonic()) > 0:
            # Replaced by an older version, or by a newer one again.
            service.takes_packed = (life % 2 == 0) == (left_s > 0.4 * lasts_s)
            engine.emit(*request_events(time.time(), number))
            number += 1
            time.sleep(0.004)
        agent_process.kill()
        engine.emit(*request_events(time.time(), number))
        number += 1
    service.script.clear()
    service.trace_script.clear()
    service.takes_packed = True
    before = service.forms[MEDIA_TYPE]
    agent_process.start()

    def one_came_packed() -> bool:
        nonlocal number
        engine.emit(*request_events(time.time(), number))
        number += 1
        return service.forms[MEDIA_TYPE] > before

    eventually(one_came_packed)
    eventually(lambda: service.counts[REQUESTS] >= number and len(service.spans) >= number, 20)
    assert agent_process.end() == 0
    assert service.counts[REQUESTS] == number
    assert service.counts[metrics.TTFT.name] == number
    assert service.counts[metrics.ITL.name] == 7 * number
    assert service.counts[metrics.OUTPUT_TOKENS.name] == 8 * number
    assert service.counts[metrics.STEP_FORWARD.name] == number
    assert service.counts[metrics.EVENTS_MISSED.name] == 0
    assert len(service.spans) == number
    # Each report said one thing, however often and in whichever form it came.
    assert all(identity and len(bodies) == 1 for identity, bodies in service.bodies_of.items())
    # Each process reported under a stream of its own, but for one that was killed while it started.
    assert len({identity.partition("/")[0] for identity in service.bodies_of}) in (LIVES, LIVES + 1)
    assert service.forms["application/x-protobuf"] > 0
    for start, end in service.windows:
        assert end % 5_000_000_000 == 0
        assert end - 5_000_000_000 <= start < end


def test_reports_wait_while_the_service_is_gone(
    agent_process: AgentProcess,
    engine: FakeEngine,
    service: FakeService,
    served_service: ServedApp,
    eventually: Eventually,
    tmp_path: Path,
) -> None:
    agent_process.start()
    eventually(lambda: service.newest("health") is not None)
    served_service.stop()
    for number in range(200):
        engine.emit(*request_events(time.time(), number))
        time.sleep(0.01)
    eventually(lambda: len(list((tmp_path / "state/spool").glob("*.report"))) >= 3)
    served_service.start()
    eventually(lambda: service.counts[REQUESTS] == 200, 30)
    eventually(lambda: service.newest("health").component_health_map["spool"].status.startswith("0 "), 30)


def test_a_configuration_is_applied_and_one_that_fails_leaves_the_last_in_force(
    agent_process: AgentProcess, engine: FakeEngine, service: FakeService, eventually: Eventually
) -> None:
    service.offer = offer(4, max_num_seqs=8)
    agent_process.start()
    eventually(lambda: service.status().status == opamp_pb2.RemoteConfigStatuses_APPLIED)
    assert engine.config.max_num_seqs == 8
    eventually(
        lambda: b'"revision": 4' in service.newest("effective_config").config_map.config_map["effective.json"].body
    )

    engine.refuse_with = Conflict("out of memory for these weights")
    service.offer = offer(5, max_num_seqs=16)
    eventually(lambda: service.status().status == opamp_pb2.RemoteConfigStatuses_FAILED)
    assert service.status().last_remote_config_hash == b"5:h5"
    assert "out of memory for these weights" in service.status().error_message
    assert engine.config.max_num_seqs == 8

    engine.refuse_with = None
    service.offer = offer(6, max_num_seqs=9999)
    eventually(lambda: service.status().last_remote_config_hash == b"6:h6")
    assert service.status().status == opamp_pb2.RemoteConfigStatuses_FAILED
    assert "knobs.max_num_seqs" in service.status().error_message
    assert engine.config.max_num_seqs == 8

    engine.restart("boot-2")
    eventually(lambda: engine.config.max_num_seqs == 8 and engine.revision == 4)
    assert service.status().last_remote_config_hash == b"6:h6"


def test_a_revoked_token_makes_the_agent_enrol_again(
    agent_process: AgentProcess, engine: FakeEngine, service: FakeService, eventually: Eventually
) -> None:
    agent_process.start()
    eventually(lambda: service.newest("health") is not None)
    service.token = "node-token-2"
    engine.emit(*request_events(time.time(), 1))
    eventually(lambda: service.counts[REQUESTS] == 1)
    assert len(service.enrolments) == 2


def test_an_engine_that_tells_of_itself_but_does_not_serve_yet_is_not_well(
    agent_process: AgentProcess, engine: FakeEngine, service: FakeService, eventually: Eventually
) -> None:
    def told() -> list[bool]:
        healths = [message.health for message in service.agents if message.HasField("health")]
        return [health.component_health_map["engine"].healthy for health in healths]

    engine.listens = False
    agent_process.start()
    eventually(told)
    for life in (1, 2):
        engine.restart(f"boot-{life}")
        engine.emit(*request_events(time.time(), life))
        eventually(lambda life=life: service.counts[REQUESTS] == life)  # So its hello was heard.
    assert not any(told())
    engine.listens = True
    eventually(lambda: told()[-1])


def test_a_second_agent_on_the_same_state_is_refused(
    agent_process: AgentProcess, service: FakeService, eventually: Eventually, capfd: pytest.CaptureFixture[str]
) -> None:
    agent_process.start()
    first = agent_process.process
    eventually(lambda: service.newest("health") is not None)
    agent_process.start()
    assert agent_process.process is not None and agent_process.process.wait(20) == 2
    assert "another agent uses" in capfd.readouterr().err
    agent_process.process = first
