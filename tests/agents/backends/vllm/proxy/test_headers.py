"""Which headers reach the other side."""

from multidict import CIMultiDict

from agents.backends.vllm.proxy import headers


def test_hop_by_hop_headers_and_those_that_connection_names_do_not_pass() -> None:
    sent = CIMultiDict(
        {
            "Host": "models.example",
            "Connection": "keep-alive, X-Private",
            "Keep-Alive": "timeout=5",
            "TE": "trailers",
            "Trailer": "X-Sum",
            "Transfer-Encoding": "chunked",
            "Upgrade": "h2c",
            "Proxy-Authorization": "Basic eA==",
            "X-Private": "1",
            "Content-Length": "3",
            "Expect": "100-continue",
            "Authorization": "Bearer token",
            "Content-Type": "application/json",
        }
    )
    assert dict(headers.onward(sent, None)) == {
        "Host": "models.example",
        "Authorization": "Bearer token",
        "Content-Type": "application/json",
    }


def test_the_peer_is_appended_to_who_the_request_was_forwarded_for() -> None:
    assert headers.onward(CIMultiDict(), "10.0.0.9")["X-Forwarded-For"] == "10.0.0.9"
    several = CIMultiDict([("X-Forwarded-For", "10.0.0.1, 10.0.0.2"), ("x-forwarded-for", "10.0.0.3")])
    assert headers.onward(several, "10.0.0.9").getall("X-Forwarded-For") == ["10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.9"]


def test_repeated_headers_pass_in_both_directions() -> None:
    assert headers.onward(CIMultiDict([("X-A", "1"), ("X-A", "2")]), None).getall("X-A") == ["1", "2"]
    answer = CIMultiDict(
        [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "7"), ("Connection", "close"), ("Date", "x")]
    )
    assert list(headers.back(answer).items()) == [
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("Content-Length", "7"),
        ("Date", "x"),
    ]
