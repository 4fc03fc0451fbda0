"""Where an engine may listen: what an agent may tell, and what the tuner calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.engine_address import networks_of, problem_of, problem_of_address
from controlplane.contract.errors import BadSettings


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:7400",
        "http://localhost:8000/",
        "https://gpu-1.example:7400",
        "http://10.1.2.3:7400/engine",
        "http://[::1]:7400",
        "http://[2001:db8::7]",
        "http://8.8.8.8",
    ],
)
def test_where_engines_listen_passes(url: str) -> None:
    assert problem_of(url) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("javascript:alert(1)", "wants http://"),
        ("file:///etc/passwd", "wants http://"),
        ("gopher://10.1.2.3", "wants http://"),
        ("http://", "wants http://"),
        ("http://user:pass@10.1.2.3", "no user"),
        ("http://good.example@10.1.2.3", "no user"),
        ("http://10.1.2.3/?a=b", "no query"),
        ("http://10.1.2.3/#a", "no fragment"),
        ("http://10.1.2.3:99999", "is no URL"),
        ("http://[::1", "is no URL"),
        ("http://a b", "without spaces"),
        ("http://a\r\nX: y", "printable"),
        ("http://" + "a" * 300, "at most 300"),
        ("http://169.254.169.254/latest", "metadata"),
        ("http://[fe80::1%25eth0]:80", "link-local"),
        ("http://[::ffff:169.254.169.254]", "metadata"),
        ("http://0.0.0.0:7400", "no address of a host"),
        ("http://224.0.0.1", "multicast"),
        ("http://255.255.255.255", "reserved"),
    ],
)
def test_anything_else_is_refused_with_the_reason(url: str, why: str) -> None:
    assert why in (problem_of(url) or "")


@given(st.text(max_size=400))
def test_any_text_has_an_answer(url: str) -> None:
    problem = problem_of(url)
    assert problem is not None or url.startswith(("http://", "https://", "HTTP", "Http", "hTTP"))


@given(st.ip_addresses())
def test_a_network_of_machines_passes(address: object) -> None:
    problem = problem_of_address(str(address))
    assert problem is None or "no engine listens there" in problem
    assert problem_of_address("gpu-1.example") is None


def test_of_named_networks_no_other_passes() -> None:
    networks = networks_of(("10.0.0.0/8", " fd00::/8"))
    for fine in ("10.1.2.3", "fd00::1", "::ffff:10.9.9.9"):
        assert problem_of_address(fine, networks) is None
    for wrong in ("11.0.0.1", "127.0.0.1", "::1", "fe80::1", "169.254.169.254", "::ffff:127.0.0.1"):
        assert problem_of_address(wrong, networks) is not None
    with pytest.raises(BadSettings, match=r"engine_allow: .*10\.0\.0\.1/8"):
        networks_of(("10.0.0.1/8",))
