"""Reading and writing OpAMP messages, without a wire."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ConfigStatus
from controlplane.contract.errors import BadRequest, TooLarge
from controlplane.contract.knobs import EngineConfig, config_hash
from controlplane.contract.reports.opamp import ENGINE_URL
from controlplane.fleet.machine import Wish
from controlplane.fleet.opamp import wire
from controlplane.fleet.opamp.wire import Reply

UID = bytes(range(16))


def sent(**parts: object) -> opamp_pb2.AgentToServer:
    return opamp_pb2.AgentToServer(instance_uid=UID, sequence_num=3, **parts)  # type: ignore[arg-type]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_report_or_a_bad_request(message: bytes) -> None:
    try:
        report = wire.parse(message)
    except BadRequest as error:
        assert error.detail["field"]
    else:
        assert len(report.instance_uid) == 32


def test_a_part_that_is_left_out_is_none() -> None:
    report = wire.parse(sent().SerializeToString())
    assert report == wire.AgentReport(UID.hex(), 3)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(0, ConfigStatus.UNSET), (1, ConfigStatus.APPLIED), (2, ConfigStatus.APPLYING), (3, ConfigStatus.FAILED)],
)
def test_each_status_is_understood(status: int, wanted: ConfigStatus) -> None:
    message = sent()
    message.remote_config_status.status = status  # type: ignore[assignment]
    message.remote_config_status.last_remote_config_hash = b"4:abc"
    message.remote_config_status.error_message = "why"
    config = wire.parse(message.SerializeToString()).config
    assert config is not None
    assert (config.hash, config.status, config.error) == ("4:abc", wanted, "why")


def test_a_node_that_serves_degraded_is_healthy_and_says_what_is_missing() -> None:
    message = sent()
    message.health.healthy, message.health.status = True, "serving, degraded"
    engine = message.health.component_health_map["engine"]
    engine.healthy, engine.status, engine.last_error = True, "serving, degraded", "no plugin: limits cannot be moved"
    other = message.health.component_health_map["telemetry"]
    other.healthy, other.status, other.last_error = True, "ok", "an old error of a foreign agent"
    health = wire.parse(message.SerializeToString()).health
    assert health is not None and health.healthy
    assert health.detail == "engine: no plugin: limits cannot be moved"


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    message = sent()
    message.remote_config_status.status = 3  # type: ignore[assignment]
    message.remote_config_status.error_message = "did not come up\n" + "INFO loading\n" * 1000 + "ValueError: why"
    config = wire.parse(message.SerializeToString()).config
    assert config is not None and len(config.error) <= 2000
    assert config.error.startswith("did not come up") and config.error.endswith("ValueError: why")
    assert "[...]" in config.error


def test_components_errors_are_said_once_and_by_name() -> None:
    message = sent()
    message.health.last_error = "engine gone; disk full; and more"
    for name, error in (("engine", "engine gone"), ("spool", "disk full")):
        message.health.component_health_map[name].last_error = error
    health = wire.parse(message.SerializeToString()).health
    assert health is not None
    assert health.detail == "and more; engine: engine gone; spool: disk full"


@pytest.mark.parametrize("text", ["nan", "inf", "half"])
def test_a_share_that_is_no_number_is_a_problem(text: str) -> None:
    message = sent()
    message.health.component_health_map["decomposition"].status = text
    report = wire.parse(message.SerializeToString())
    assert report.health is not None
    assert report.health.unaccounted_share is None
    assert report.problems[0].startswith("health.decomposition.status")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"revision": 1}', b'{"revision": NaN, "knobs": {}}', b"[" * 5000])
def test_an_effective_configuration_that_cannot_be_read_is_a_problem(body: bytes) -> None:
    message = sent()
    message.effective_config.config_map.config_map["effective.json"].body = body
    report = wire.parse(message.SerializeToString())
    assert report.effective is None
    assert report.problems[0].startswith("effective_config.effective.json")


def test_one_bad_knob_does_not_lose_the_other_knobs() -> None:
    message = sent()
    body = b'{"revision": 1, "knobs": {"max_num_seqs": 3, "quantization": ["int8"], "prefill_chunk_size": Infinity}}'
    message.effective_config.config_map.config_map["effective.json"].body = body
    report = wire.parse(message.SerializeToString())
    assert report.effective is not None and report.effective.knobs == {"max_num_seqs": 3}
    assert [problem.split(":")[0] for problem in report.problems] == [
        "effective_config.effective.json.knobs.quantization",
        "effective_config.effective.json.knobs.prefill_chunk_size",
    ]


@pytest.mark.parametrize(
    ("said", "kept"),
    [("http://10.1.2.3:7400", True), ("javascript:alert(1)", False), ("http://169.254.169.254", False)],
)
def test_an_engine_s_address_that_is_none_is_a_problem(said: str, kept: bool) -> None:
    message = sent()
    message.agent_description.non_identifying_attributes.add(key=ENGINE_URL).value.string_value = said
    report = wire.parse(message.SerializeToString())
    assert report.description is not None and report.description.engine_url == (said if kept else None)
    assert [ENGINE_URL in problem for problem in report.problems] == ([] if kept else [True])


def test_a_missing_entry_is_named() -> None:
    message = sent()
    message.effective_config.config_map.config_map["other.yaml"].body = b"x"
    assert "effective.json: missing" in wire.parse(message.SerializeToString()).problems[0]


def test_frames_carry_the_header() -> None:
    framed = wire.frame(wire.encode(Reply(UID.hex())))
    assert framed[0] == 0
    assert wire.unframe(framed) == framed[1:]
    with pytest.raises(TooLarge):
        wire.unframe(b"\x00" * (wire.MESSAGE_LIMIT_BYTES + 1))


def test_errors_say_whether_to_try_again() -> None:
    refused = wire.encode(Reply(UID.hex(), error="no")).error_response
    busy = wire.encode(Reply(UID.hex(), error="later", retry_after_s=1.5)).error_response
    assert refused.type == opamp_pb2.ServerErrorResponseType_BadRequest
    assert busy.type == opamp_pb2.ServerErrorResponseType_Unavailable
    assert busy.retry_info.retry_after_nanoseconds == 1_500_000_000


def test_an_offer_is_the_whole_configuration() -> None:
    config = EngineConfig(num_speculative_tokens=((4, 2), (8, 1)))
    made_at = datetime(2026, 1, 1, tzinfo=UTC)
    desired = Revision(number=7, hash=config_hash(config), knobs=config, created_by="me", created_at=made_at)
    remote = wire.encode(Reply(UID.hex(), offer=Wish(desired))).remote_config
    assert remote.config_hash == f"7:{desired.hash}".encode()
    body = remote.config.config_map["engine.json"].body
    assert b'"num_speculative_tokens":[[4,2],[8,1]]' in body and b"cache_reset" not in body
    again = wire.encode(Reply(UID.hex(), offer=Wish(desired, cache_reset=3))).remote_config
    assert again.config_hash == f"7:{desired.hash}:3".encode()
    assert b'"cache_reset":3' in again.config.config_map["engine.json"].body


def test_labels_are_those_of_the_description_and_a_wrong_one_is_told() -> None:
    message = sent()
    for key, value in {
        "cloud.region": "eu-1",
        "host.cpu.model.name": "AMD EPYC 9654",
        "tailwright.label.rack": "r1",
        "tailwright.label.bad": "a b",
        "os.type": "linux",
    }.items():
        message.agent_description.non_identifying_attributes.add(key=key).value.string_value = value
    report = wire.parse(message.SerializeToString())
    assert report.description is not None
    assert report.description.labels == {"region": "eu-1", "processor": "AMD-EPYC-9654", "rack": "r1"}
    assert len(report.problems) == 1 and report.problems[0].startswith("labels: bad: a label's value is")
