"""Whom our clients trust: the public authorities where there is TLS, and nobody where there is none."""

import ssl

import pytest

from controlplane.client.named_proxy import authorities


@pytest.mark.parametrize("url", ["https://tailwright.example", "HTTPS://tailwright.example", "HTTP://x", "//x", ""])
def test_what_may_be_tls_is_asked_with_the_public_authorities(url: str) -> None:
    trusted = authorities(url)
    assert trusted.verify_mode is ssl.CERT_REQUIRED and trusted.check_hostname and trusted.get_ca_certs()


@pytest.mark.parametrize("url", ["http://127.0.0.1:7300", "unix:/run/tailwright.sock"])
def test_without_tls_nobody_is_trusted(url: str) -> None:
    """So that a connection which was encrypted all the same would fail, and not be believed."""
    trusted = authorities(url)
    assert trusted.verify_mode is ssl.CERT_REQUIRED and trusted.check_hostname and trusted.get_ca_certs() == []
