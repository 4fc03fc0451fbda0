"""ID tokens: claims come of a fitting signature alone, whatever the token says of itself."""

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from controlplane.auth.oidc.id_token import ALGORITHMS, LEEWAY_S, LONGEST, Expected, UnknownKey, claims_of
from controlplane.contract.errors import SignInRefused
from tests.oidc_issuer import make_key, part

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = int(NOW.timestamp())
EXPECTED = Expected("https://issuer.example", "tailwright", "the-nonce")
CLAIMS: dict[str, Any] = {
    "iss": EXPECTED.issuer,
    "aud": EXPECTED.client_id,
    "sub": "u1",
    "nonce": EXPECTED.nonce,
    "iat": AT,
    "exp": AT + 300,
}


@cache
def key_for(algorithm: str) -> Key:
    return make_key(algorithm, algorithm)


def signed(algorithm: str = "ES256", key: Key | None = None, header: dict[str, Any] | None = None, **says: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **says}.items() if value is not None}
    top = {"alg": algorithm, "kid": algorithm} if header is None else header
    return jwt.encode(top, claims, key or key_for(algorithm), algorithms=[algorithm])


def claims(token: str, *keys: Key) -> dict[str, Any]:
    return claims_of(token, keys or tuple(map(key_for, ALGORITHMS)), EXPECTED, NOW)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_with_its_own_kind_of_key(algorithm: str) -> None:
    assert claims(signed(algorithm, groups=["a"])) == {**CLAIMS, "groups": ["a"]}
    # A token that names no key may be signed with any that fits.
    assert claims(signed(algorithm, header={"alg": algorithm}))["sub"] == "u1"


@pytest.mark.parametrize(
    ("says", "good"),
    [
        ({"exp": AT - LEEWAY_S + 1}, True),
        ({"exp": AT - LEEWAY_S}, False),
        ({"iat": AT + LEEWAY_S}, True),
        ({"iat": AT + LEEWAY_S + 1}, False),
        ({"nbf": AT + LEEWAY_S + 1}, False),
        ({"aud": ["tailwright"]}, True),
        ({"aud": ["tailwright", "other"], "azp": "tailwright"}, True),
        ({"aud": ["tailwright", "other"]}, False),
        ({"aud": "Tailwright"}, False),
        ({"iss": "https://issuer.example/"}, False),
        ({"sub": "u" * 256}, False),
        ({"sub": "u" * 255}, True),
        ({"sub": 7}, False),
        ({"sub": ""}, False),
        ({"nonce": "another"}, False),
        *[({missing: None}, False) for missing in CLAIMS],
        ({"exp": True}, False),
    ],
)
def test_what_a_token_has_to_say_to_the_second_and_the_letter(says: dict[str, Any], good: bool) -> None:
    if good:
        assert claims(signed(**says))["sub"] == says.get("sub", "u1")
    else:
        with pytest.raises(SignInRefused):
            claims(signed(**says))


@given(st.integers(0, 2**16), st.sampled_from("AZaz09-_."))
def test_no_token_with_one_other_character_counts(place: int, sign: str) -> None:
    token = signed("EdDSA")
    place %= len(token) - 1  # The last character's low bits are padding.
    changed = token[:place] + sign + token[place + 1 :]
    if changed != token:
        with pytest.raises(SignInRefused):
            claims(changed)


@given(st.one_of(st.text(max_size=200), st.lists(st.binary(max_size=20).map(part), max_size=6).map(".".join)))
def test_rubbish_is_refused_never_an_error_of_ours(text: str) -> None:
    with pytest.raises(SignInRefused):
        claims(text)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "RS1", "ES512", "", None, ["RS256"]])
def test_only_four_algorithms_are_taken(algorithm: object) -> None:
    token = f"{part({'alg': algorithm, 'kid': 'RS256'})}.{part(CLAIMS)}.{part(b'x')}"
    with pytest.raises(SignInRefused):
        claims(token)


def test_a_shared_secret_among_the_keys_signs_nothing() -> None:
    secret = OctKey.generate_key(256, {"kid": "shared"})
    token = jwt.encode({"alg": "HS256", "kid": "shared"}, CLAIMS, secret, algorithms=["HS256"])
    with pytest.raises(SignInRefused, match="taken are"):
        claims(token, secret)


def test_a_key_counts_for_what_it_is_for() -> None:
    key = key_for("RS256").as_dict(private=False)
    token = signed("RS256")
    assert claims(token, RSAKey.import_key(key, {"alg": "RS256"}))["sub"] == "u1"
    for other in ({"use": "enc"}, {"alg": "PS256"}, {"kid": "another"}):
        with pytest.raises(UnknownKey):
            claims(token, RSAKey.import_key({**key, **other}))
    for wrong in (
        *[ECKey.generate_key(curve, {"kid": "RS256"}) for curve in ("P-256", "P-384")],
        *[OKPKey.generate_key(curve, {"kid": "RS256"}) for curve in ("Ed25519", "X25519")],
    ):
        with pytest.raises(UnknownKey):
            claims(token, wrong)
    for algorithm, other in (
        ("ES256", ECKey.generate_key("P-384", {"kid": "ES256"})),
        ("EdDSA", OKPKey.generate_key("X25519", {"kid": "EdDSA"})),
        ("RS256", RSAKey.generate_key(1024, {"kid": "RS256"})),
    ):
        with pytest.raises(UnknownKey):
            claims(signed(algorithm), other)
    with pytest.raises(UnknownKey):
        claims_of(token, (), EXPECTED, NOW)


def test_a_header_that_must_be_understood_and_is_not_is_refused() -> None:
    header = {"alg": "ES256", "kid": "ES256", "crit": ["x-strange"], "x-strange": 1}
    head = f"{part(header)}.{part(CLAIMS)}"
    with pytest.raises(SignInRefused):
        claims(f"{head}.{part(b'x' * 64)}")


def test_a_token_may_be_long_and_has_an_end() -> None:
    assert len(claims(signed(groups=[f"group-{n}" for n in range(1000)]))["groups"]) == 1000
    with pytest.raises(SignInRefused, match="longer than"):
        claims(signed(padding="x" * LONGEST))


def test_claims_that_are_no_object_are_refused() -> None:
    for payload in ([], "u1", 7, None):
        token = jws.serialize_compact({"alg": "ES256", "kid": "ES256"}, json.dumps(payload), key_for("ES256"))
        with pytest.raises(SignInRefused):
            claims(token)
