"""The address of a trace: what a setting may be, and that no id leads anywhere but behind its host."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.trace_url import checked, trace_link

GOOD = (
    "https://tempo.example/trace/{trace_id}",
    "http://jaeger:16686/trace/{trace_id}?uiFind=a",
    "https://g/#{trace_id}",
)


@pytest.mark.parametrize("url", GOOD)
def test_one_place_behind_the_host_is_taken(url: str) -> None:
    assert checked(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://tempo.example/trace/",
        "https://tempo.example/{trace_id}/{trace_id}",
        "https://{trace_id}.example/trace",
        "https://tempo.example:{trace_id}/",
        "javascript:alert('{trace_id}')",
        "tempo.example/{trace_id}",
        "https:///{trace_id}",
        "https://[/{trace_id}",
        "https://tempo.example/a b/{trace_id}",
        "https://tempo.example/\n{trace_id}",
        "https://tempo.example/{TRACE_ID}",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"\{trace_id\}|Invalid"):
        checked(url)


@given(st.sampled_from(GOOD), st.text(min_size=1, max_size=40))
def test_whatever_the_id_is_the_host_stays(url: str, trace_id: str) -> None:
    link, given_url = urlsplit(trace_link(url, trace_id)), urlsplit(url)
    assert (link.scheme, link.netloc) == (given_url.scheme, given_url.netloc)
    assert trace_link(url, trace_id).isascii() and trace_link(url, "0af7") == url.replace("{trace_id}", "0af7")
