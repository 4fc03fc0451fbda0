"""Whose word is taken for who asks."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.serving.proxies import Proxies


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_a_network_holds_its_addresses_and_no_others(address: object, length: int) -> None:
    network = ip_network("10.1.2.0/24")
    assert (str(address) in Proxies.of(["10.1.2.0/24"])) == (ip_address(str(address)) in network)
    own = str(ip_network(f"{address}/{length}", strict=False))
    assert str(address) in Proxies.of([own])


def test_single_addresses_of_both_families_and_everybody() -> None:
    some = Proxies.of(["127.0.0.1", " fd00::1 ", ""])
    assert "127.0.0.1" in some and "fd00::1" in some and "fd00:0::1" in some
    assert "127.0.0.2" not in some and "" not in some and "proxy.example" not in some
    assert "198.51.100.7" in Proxies.of(["*"]) and "" in Proxies.of(["*"])


@pytest.mark.parametrize("words", [["proxy.example"], ["*", "10.0.0.1"], ["10.0.0.1/8"], ["300.1.1.1"]])
def test_what_would_never_match_is_refused(words: list[str]) -> None:
    with pytest.raises(ValueError):
        Proxies.of(words)
