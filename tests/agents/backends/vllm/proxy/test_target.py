"""The one spelling of a server's URL."""

import pytest

from agents.backends.vllm.proxy.target import target_url
from controlplane.contract.errors import BadRequest


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
        ("http://127.0.0.1:8001/", "http://127.0.0.1:8001"),
        ("HTTP://LocalHost:8001", "http://localhost:8001"),
        ("http://models", "http://models:80"),
        ("http://[::1]:8001", "http://[::1]:8001"),
        ("https://models", "https://models:443"),
        ("HTTPS://127.0.0.1:8001/", "https://127.0.0.1:8001"),
    ],
)
def test_one_server_has_one_spelling(written: str, meant: str) -> None:
    assert target_url(written) == meant


@pytest.mark.parametrize(
    "written",
    [None, 8001, "", "127.0.0.1:8001", "ftp://a:1", "http://:8001", "http://a:port", "http://a:99999", "http://a:1/v1",
     "http://a:1?x=1", "http://u:p@a:1", "unix:/tmp/x", "http://[::1", 'http://a"b:1', "http://a b:1", "http://@a:1", "http://a\n:1"],
)  # fmt: skip
def test_what_is_no_server_is_refused_by_the_name_of_the_field(written: object) -> None:
    with pytest.raises(BadRequest) as caught:
        target_url(written)
    assert caught.value.detail["field"] == "url"
    assert "url:" in caught.value.message
