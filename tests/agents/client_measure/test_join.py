from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.client_measure import ClientRecord, Ending, join
from agents.client_measure.join import own_id

IDS = st.one_of(st.uuids().map(str), st.text("abc-0123456789", min_size=1, max_size=12))


@dataclass(frozen=True)
class Server:
    request_id: str
    parts: dict[str, float] = field(default_factory=lambda: {"e2e": 1.0, "ttft": 0.25})
    node: str = "node-a"


def client(request_id: str, **more: object) -> ClientRecord:
    values = {"started": 1000.0, "ending": Ending.COMPLETE, "e2e_s": 2.0, "first_event_s": 0.75, "model": "m", **more}
    return ClientRecord(request_id=request_id, **values)  # type: ignore[arg-type]


def test_network_is_what_is_left_of_the_clients_time() -> None:
    record = client("a", pool_s=0.125, connect_s=0.25, tls_s=0.125, behind_s=0.5)
    (found,) = join([record], [Server("a")]).matched
    assert found.network_s == 2.0 - 0.5 - 1.0
    assert found.network_ttft_s == 0.75 - 0.5 - 0.25
    assert (found.connect_s, found.tls_s, found.pool_s, found.uncertainty_s) == (0.25, 0.125, 0.125, 0.5)
    assert (found.node, found.model, found.ended) == ("node-a", "m", 1002.0)


def test_on_an_open_connection_there_is_nothing_to_take_off() -> None:
    (found,) = join([client("a")], [Server("a")]).matched
    assert found.network_s == 1.0 and found.connect_s is None


def test_an_answer_in_one_piece_has_no_network_ttft() -> None:
    (found,) = join([client("a", first_event_s=None)], [Server("a")]).matched
    assert found.network_ttft_s is None
    (found,) = join([client("a")], [Server("a", {"e2e": 1.0})]).matched
    assert found.network_ttft_s is None


@given(IDS, st.sampled_from(["{}", "chatcmpl-{}", "cmpl-{}", "cmpl-{}-0", "{}-3", "chatcmpl-{}-11"]))
def test_a_clients_id_is_found_in_the_servers(request_id: str, form: str) -> None:
    assert own_id(form.format(request_id), {request_id}) == request_id


@given(st.sets(IDS, min_size=2, max_size=6))
def test_no_id_is_taken_for_another(ids: set[str]) -> None:
    """An exact id goes first, so that an id which is another's with a number behind it keeps its own record."""
    for request_id in ids:
        assert own_id(request_id, ids) == request_id


@given(st.sets(IDS, max_size=8), st.sets(IDS, max_size=8))
def test_everything_is_counted_once(ours: set[str], theirs: set[str]) -> None:
    result = join([client(one) for one in sorted(ours)], [Server(one) for one in sorted(theirs)])
    assert len(result.matched) + result.unmatched_client == len(ours)
    assert len({found.request_id for found in result.matched}) == len(result.matched)
    assert result.unmatched_server <= len(theirs - ours)
    assert len(result.matched) >= len(ours & theirs)


def test_several_answers_of_one_request_are_one() -> None:
    answers = [Server("a", {"e2e": 1.0, "ttft": 0.5}), Server("a-1", {"e2e": 1.75, "ttft": 0.25}, "node-b")]
    (found,) = join([client("a")], answers).matched
    assert (found.network_s, found.network_ttft_s, found.node) == (0.25, 0.5, "node-b")


def test_two_requests_of_one_id_are_not_guessed_at() -> None:
    result = join([client("a"), client("a"), client("b")], [Server("a"), Server("b")])
    assert result.ambiguous == 2 and [found.request_id for found in result.matched] == ["b"]


def test_a_failed_try_does_not_make_the_good_one_ambiguous() -> None:
    result = join([client("a", ending=Ending.ERROR), client("a")], [Server("a")])
    assert len(result.matched) == 1 and (result.ambiguous, result.not_complete) == (0, 1)


def test_what_did_not_complete_is_not_compared_nor_anyone_elses() -> None:
    gone = client("a", ending=Ending.CANCELLED)
    result = join([gone, client("c"), client("d")], [Server("a"), Server("b"), Server("d", {"ttft": 1.0})])
    assert result.matched == ()
    assert (result.not_complete, result.unmatched_client, result.unmatched_server) == (1, 2, 1)


def test_a_figure_below_nought_stays() -> None:
    (found,) = join([client("a", e2e_s=0.75, first_event_s=None)], [Server("a")]).matched
    assert found.network_s == pytest.approx(-0.25)


def test_the_network_of_a_longer_server_time_is_shorter() -> None:
    found = [join([client("a")], [Server("a", {"e2e": e2e})]).matched[0].network_s for e2e in (0.5, 1.0, 1.5)]
    assert all(later < earlier for earlier, later in pairwise(found))
