"""Names a server answers to."""

import pytest

from controlplane.contract.bearer import bearer_of, bearer_token
from controlplane.contract.host_names import ANY, answers_to, is_loopback, names_of


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True)]
)
def test_loopback_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "engine.example", "localhost.example", ""])
def test_addresses_that_others_reach(host: str) -> None:
    assert not is_loopback(host)


def test_on_loopback_a_server_answers_to_its_own_names_and_those_given() -> None:
    names = names_of("127.0.0.1", ["Engine.example"])
    for good in (b"127.0.0.1:7400", b"localhost", b"LOCALHOST:1", b"[::1]:7400", b"engine.example", b""):
        assert answers_to(good, names), good
    for bad in (
        b"evil.example",
        b"localhost.evil.example:80",
        b"127.0.0.1.evil.example",
        b"10.0.0.1",
        b"[::2]",
        b":80",
    ):
        assert not answers_to(bad, names), bad


def test_elsewhere_it_answers_to_all_until_names_are_given() -> None:
    assert names_of("0.0.0.0") == {ANY} and answers_to(b"anything", names_of("0.0.0.0"))
    assert not answers_to(b"anything", names_of("0.0.0.0", ["engine"]))


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("", None),
    ],
)
def test_bearer_tokens(header: str, token: str | None) -> None:
    assert bearer_token(header) == token
    assert bearer_of([(b"host", b"x"), (b"authorization", header.encode())]) == (token or "").encode()


def test_no_header_is_no_token() -> None:
    assert bearer_of([]) == b""
