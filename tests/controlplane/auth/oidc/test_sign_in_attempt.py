"""An attempt to sign in: all made of its secret, and of the whole of it."""

import base64
import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth.oidc.sign_in_attempt import LASTS_S, Attempt
from controlplane.contract.bodies.people import ATTEMPT_PREFIX
from controlplane.contract.errors import SignInRefused

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_the_issuer_sees_is_three_things_and_none_tells_the_secret() -> None:
    one, other = Attempt.new(NOW), Attempt.new(NOW)
    told = [one.state, one.nonce, one.verifier, one.challenge, other.state, other.nonce, other.verifier]
    assert len(set(told)) == len(told) and all(len(text) == 43 for text in told)
    assert not any(part in one.secret for part in told)
    digest = hashlib.sha256(one.verifier.encode()).digest()
    assert one.challenge == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()  # RFC 7636, section 4.2.


def test_it_is_taken_back_until_its_time_is_over() -> None:
    attempt = Attempt.new(NOW)
    assert attempt.expires_at == NOW + timedelta(seconds=LASTS_S)
    last = attempt.expires_at - timedelta(microseconds=1)
    assert Attempt.brought(attempt.secret, attempt.state, last) == attempt
    with pytest.raises(SignInRefused, match="took too long"):
        Attempt.brought(attempt.secret, attempt.state, attempt.expires_at)


@given(st.integers(0, 100), st.sampled_from("0189azAZ_-"))
def test_a_secret_with_one_other_character_is_another_attempt(place: int, sign: str) -> None:
    attempt = Attempt.new(NOW)
    place %= len(attempt.secret)
    changed = attempt.secret[:place] + sign + attempt.secret[place + 1 :]
    if changed != attempt.secret:
        with pytest.raises(SignInRefused):
            Attempt.brought(changed, attempt.state, NOW)


@given(st.text(max_size=80))
def test_what_is_no_attempt_is_refused_whatever_it_is(text: str) -> None:
    for secret in (text, ATTEMPT_PREFIX + text):
        with pytest.raises(SignInRefused):
            Attempt.brought(secret, text, NOW)
