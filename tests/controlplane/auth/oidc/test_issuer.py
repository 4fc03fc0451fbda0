"""The issuer over HTTP: asked as rarely as may be, never long, and believed only as far as it must be."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from controlplane.auth.oidc.group_roles import GroupRoles
from controlplane.auth.oidc.issuer import KEPT_S, QUIET_S, Issuer
from controlplane.auth.oidc.registration import Registration, is_safe
from controlplane.auth.oidc.sign_in_attempt import Attempt
from controlplane.contract.errors import Unavailable
from controlplane.outgoing import LOOPBACK, NOWHERE_INSIDE, AddressPolicy
from tests.oidc_issuer import Issuer as RealIssuer
from tests.oidc_issuer import issuing

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def server() -> Iterator[RealIssuer]:
    with issuing() as found:
        yield found


@pytest.fixture
def real(server: RealIssuer) -> RealIssuer:
    server.metadata = {}
    server.asked.clear()
    return server


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asking(real: RealIssuer, clock: Clock, policy: AddressPolicy = AddressPolicy(LOOPBACK)) -> Issuer:
    back = "https://tailwright.example/login/callback"
    return Issuer(Registration(real.url, "tailwright", back, GroupRoles()), policy, monotonic=clock)


def test_what_it_said_is_kept_for_a_while(real: RealIssuer, clock: Clock) -> None:
    issuer = asking(real, clock)
    assert issuer.known is None
    said = issuer.metadata()
    clock.now += KEPT_S - 1
    assert issuer.metadata() is said is issuer.known and real.asked["discovery"] == 1
    clock.now += 1
    assert issuer.metadata() is not said and real.asked["discovery"] == 2
    assert issuer.metadata(newer_than=said) is issuer.known and real.asked["discovery"] == 2


def test_the_background_asks_anew_and_a_failure_leaves_what_is_known(real: RealIssuer, clock: Clock) -> None:
    issuer = asking(real, clock)
    issuer.refresh()
    issuer.refresh()
    assert real.asked["discovery"] == 2
    said = issuer.known
    real.metadata = {"issuer": "https://evil.example"}
    with pytest.raises(Unavailable, match="calls itself"):
        issuer.refresh()
    assert issuer.metadata() is said


def test_one_that_fails_is_left_alone_for_a_moment(real: RealIssuer, clock: Clock) -> None:
    issuer = asking(real, clock)
    real.metadata = {"jwks_uri": None}
    for _ in range(3):
        with pytest.raises(Unavailable, match="jwks_uri"):
            issuer.begin(NOW)
    assert real.asked["discovery"] == 1
    real.metadata = {}
    clock.now += QUIET_S
    url, attempt = issuer.begin(NOW)
    assert attempt.state in url and attempt.verifier not in url and attempt.secret not in url


def test_a_private_address_wants_to_be_allowed(real: RealIssuer, clock: Clock) -> None:
    with pytest.raises(Unavailable, match="this machine itself"):
        asking(real, clock, NOWHERE_INSIDE).metadata()
    assert not real.asked


def test_pages_keep_the_query_that_they_have() -> None:
    client = Registration("https://i.example", "a client", "https://t.example/login/callback", GroupRoles())
    attempt = Attempt.new(NOW)
    assert client.page_for("https://i.example/go?tenant=1", attempt).startswith("https://i.example/go?tenant=1&")
    assert "client_id=a+client" in client.page_for("https://i.example/go", attempt)
    out = client.sign_out_page("https://i.example/bye", "https://t.example/login")
    assert out == "https://i.example/bye?client_id=a+client&post_logout_redirect_uri=https%3A%2F%2Ft.example%2Flogin"


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://issuer.example", True),
        ("https://10.0.0.1:8443/realms/x", True),
        ("http://127.0.0.1:8080", True),
        ("http://localhost/x", True),
        ("http://[::1]:80/", True),
        ("http://issuer.example", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1@evil.example/", False),
        ("javascript:alert(1)", False),
        ("https://", False),
        ("https://[::1", False),
        ("//issuer.example", False),
        ("", False),
    ],
)
def test_what_cannot_be_read_on_the_way(url: str, safe: bool) -> None:
    assert is_safe(url) is safe
