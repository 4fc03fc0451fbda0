"""Admins sign in with a second factor, where that is asked for: as somebody with the password alone would try it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from controlplane.contract.errors import BadSettings
from tests.oidc_issuer import CLIENT_ID, CLIENT_SECRET, Issuer, issuing
from tests.security.test_people import Attacked, Browser, bearer, counted, made, refused, write_private


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        found.person["groups"] = ["platform"]
        yield found


@pytest.fixture
def settings(tmp_path: Path, issuer: Issuer) -> dict[str, object]:
    write_private(tmp_path / "client-secret", CLIENT_SECRET)
    return {
        "oidc_issuer": issuer.url,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret_file": tmp_path / "client-secret",
        "oidc_operator_groups": "ops",
        "oidc_admin_groups": "platform",
    }


@pytest.fixture
def attacked(tmp_path: Path, settings: dict[str, object]) -> Iterator[Attacked]:
    found = Attacked(tmp_path, **settings, oidc_admin_amr="mfa,hwk", oidc_admin_acr="gold,platinum")
    yield found
    found.service.telemetry.close()
    found.service.database.close()


@pytest.fixture
def browser(attacked: Attacked) -> Browser:
    return Browser(TestClient(attacked.app))


def may_administer(browser: Browser, answer: httpx.Response) -> bool:
    assert answer.status_code == 201, answer.text
    return browser.http.get("/api/v1/people", headers=bearer(answer)).status_code == 200


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "amr nothing, acr nothing"),
        ({"amr": ["pwd"]}, "amr pwd, acr nothing"),
        ({"amr": ["pwd"], "acr": "silver"}, "amr pwd, acr silver"),
        ({"acr": ""}, "amr nothing, acr nothing"),
    ],
)
def test_with_a_password_alone_nobody_is_an_admin(
    browser: Browser, issuer: Issuer, said: dict[str, object], told: str
) -> None:
    issuer.says = said
    answer = browser.sign_in()
    refused(answer, "ada@example.com is in a group of admins, who sign in here with a second factor", 403)
    refused(answer, "the issuer has to say amr hwk or mfa, or acr gold or platinum, and says " + told, 403)
    assert counted(browser.http, "forbidden") == 1


@pytest.mark.parametrize("said", [{"amr": ["pwd", "mfa"]}, {"amr": ["hwk"]}, {"acr": "platinum"}])
def test_with_a_second_factor_an_admin_is(browser: Browser, issuer: Issuer, said: dict[str, object]) -> None:
    issuer.says = said
    assert may_administer(browser, browser.sign_in())


def test_the_issuer_is_asked_for_it_and_who_can_prove_it_comes_in(browser: Browser, issuer: Issuer) -> None:
    issuer.can = ("platinum",)
    assert may_administer(browser, browser.sign_in())
    issuer.can = ("silver",)
    refused(browser.sign_in(), "second factor", 403)


def test_everybody_else_needs_none(browser: Browser, issuer: Issuer) -> None:
    issuer.person["groups"] = ["ops"]
    assert not may_administer(browser, browser.sign_in())


def test_a_session_that_was_begun_without_it_does_not_become_an_admins(browser: Browser, issuer: Issuer) -> None:
    issuer.person["groups"] = ["ops"]
    stolen = bearer(browser.sign_in())
    assert browser.http.get("/api/v1/nodes", headers=stolen).status_code == 200
    issuer.person["groups"], issuer.says = ["platform"], {"amr": ["mfa"]}
    assert may_administer(browser, browser.sign_in())
    assert browser.http.get("/api/v1/people", headers=stolen).status_code == 401


def test_who_has_the_password_alone_ends_no_admins_session(browser: Browser, issuer: Issuer) -> None:
    issuer.says = {"amr": ["mfa"]}
    held = bearer(browser.sign_in())
    issuer.says = {"amr": ["pwd"]}
    refused(browser.sign_in(), "second factor", 403)
    assert browser.http.get("/api/v1/people", headers=held).status_code == 200


def test_an_admins_token_is_no_way_past_it(browser: Browser, attacked: Attacked) -> None:
    http = browser.http
    refused(http.post("/api/v1/sign-in-codes", headers=attacked.admin), "admin's token signs no browser in", 403)
    assert http.post("/api/v1/sign-in-codes", headers=made(http, attacked, scope="operate")).status_code == 201
    assert http.get("/api/v1/people", headers=attacked.admin).status_code == 200  # Commands go on.


def test_where_it_is_not_asked_for_an_admin_needs_none(
    tmp_path: Path, settings: dict[str, object], issuer: Issuer
) -> None:
    open_to_all = Attacked(tmp_path, **settings)
    browser = Browser(TestClient(open_to_all.app))
    assert "acr_values" not in browser.begin()[0]
    assert may_administer(browser, browser.sign_in())
    assert browser.http.post("/api/v1/sign-in-codes", headers=open_to_all.admin).status_code == 201
    open_to_all.service.telemetry.close()
    open_to_all.service.database.close()


@pytest.mark.parametrize("field", ["oidc_admin_amr", "oidc_admin_acr"])
@pytest.mark.parametrize("value", ["", "mfa,", "mfa, otp", " "])
def test_an_empty_or_blank_value_is_refused(
    tmp_path: Path, settings: dict[str, object], field: str, value: str
) -> None:
    with pytest.raises(BadSettings) as wrong:
        Attacked(tmp_path, **settings, **{field: value})
    assert wrong.value.detail["field"] == field


@pytest.mark.parametrize("field", ["oidc_admin_amr", "oidc_admin_acr"])
def test_it_means_nothing_without_an_issuer(tmp_path: Path, field: str) -> None:
    with pytest.raises(BadSettings, match="oidc_issuer names where"):
        Attacked(tmp_path, **{field: "mfa"})
