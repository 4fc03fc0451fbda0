"""Of a URL the scheme and the host are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.shown_url import address, masked, without


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/***"),
        ("http://user:pass@h.example:8443/p?token=abc#f", "http://h.example:8443/***"),
        ("http://[::1]:9/hook", "http://[::1]:9/***"),
        ("https://h.example", "https://h.example/***"),
        ("http://[broken/secret", "***"),
        ("http://h:port/secret", "***"),
        ("secret", "***://***/***"),
    ],
)
def test_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


PARTS = st.text("abcdefgh", min_size=8, max_size=12)


@given(PARTS, PARTS, PARTS, PARTS)
def test_no_part_is_left_in_another_s_words(user: str, password: str, path: str, query: str) -> None:
    url = f"https://{user}:{password}@host.example/{path}?token={query}"
    said = without(url, f"cannot call {url}: /{path} and token={query} of {user} with {password} failed")
    assert not [part for part in (user, password, path, query) if part in said]
    assert "host.example" in said


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:7300", "http://127.0.0.1:7300"),
        ("https://ada:secret@tailwright.example/base?key=secret#x", "https://tailwright.example/base"),
        ("unix:/run/tailwright.sock", "unix:/run/tailwright.sock"),
    ],
)
def test_a_servers_address_has_no_secret(url: str, shown: str) -> None:
    assert address(url) == shown
