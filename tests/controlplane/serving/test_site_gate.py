"""Which requests that change something come from a page of this origin: pure, by what a browser says of itself."""

import pytest

from controlplane.serving.site_gate import is_ours

HOST = "tail.example:7300"


@pytest.mark.parametrize(
    ("origin", "site", "scheme"),
    [
        (None, None, "http"),  # No browser.
        (f"http://{HOST}", None, "http"),
        (f"http://{HOST}", "same-origin", "http"),
        (f"https://{HOST}", "same-origin", "https"),
        (f"https://{HOST}", None, "http"),  # Behind a proxy that speaks TLS.
        ("http://TAIL.example:7300", None, "http"),
        ("null", "same-origin", "https"),  # A page whose referrer policy tells nothing.
        (None, "none", "https"),  # The reader himself.
    ],
)
def test_our_own_pages_pass(origin: str | None, site: str | None, scheme: str) -> None:
    assert is_ours(origin, site, scheme, HOST)


@pytest.mark.parametrize(
    ("origin", "site", "scheme"),
    [
        ("https://evil.example", None, "https"),
        (f"https://{HOST}", "cross-site", "https"),
        (f"https://{HOST}", "same-site", "https"),
        (None, "cross-site", "http"),
        ("null", "cross-site", "http"),  # A sandboxed frame.
        ("http://tail.example:9999", "same-site", "http"),
        ("http://tail.example:9999", None, "http"),  # Cookies ignore ports; origins do not.
        (f"http://{HOST}", None, "https"),
        (f"http://{HOST}.evil.example", None, "http"),
        (f"http://evil.example@{HOST}", None, "http"),
        ("http://[", None, "http"),
        ("", None, "http"),
        ("nonsense", "nonsense", "http"),
    ],
)
def test_others_do_not(origin: str | None, site: str | None, scheme: str) -> None:
    assert not is_ours(origin, site, scheme, HOST)
