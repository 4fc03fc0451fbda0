"""Every finish reason that anything emits has one meaning: served, lost, or left by its client."""

from agents.backends.vllm.managed.front_door import FINISH_REASONS
from agents.backends.vllm.proxy.switchboard import Failure
from agents.engine.scheduling.request import FinishReason
from controlplane.contract.reports import finish_reasons


def test_each_reason_means_one_thing() -> None:
    kinds = (finish_reasons.COMPLETE, finish_reasons.FAILED, finish_reasons.CLIENT)
    assert sum(map(len, kinds)) == len(finish_reasons.ALL)
    told = {value for name, value in vars(finish_reasons).items() if name.isupper() and isinstance(value, str)}
    assert told == finish_reasons.ALL


def test_what_the_server_gives_up_is_lost_and_what_the_client_leaves_is_not() -> None:
    assert {"error", "timeout", "shed", "refused", "disconnect"} == finish_reasons.FAILED
    assert {"abort"} == finish_reasons.CLIENT


def test_engine_and_proxy_speak_these_words() -> None:
    assert {reason.value for reason in FinishReason} <= finish_reasons.ALL
    clients = {Failure.TOO_LARGE, Failure.STALLED, Failure.MALFORMED, Failure.NOT_SERVED}
    assert set(FINISH_REASONS) == set(Failure) - clients
    assert set(FINISH_REASONS.values()) <= finish_reasons.FAILED
