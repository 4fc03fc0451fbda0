"""A secret that a change keeps is the one that was there, and goes nowhere else."""

from typing import Any

import pytest

from controlplane.alerts.notify.kept_secrets import with_kept
from controlplane.contract.channels.destinations import DestinationReplace
from controlplane.contract.errors import BadRequest
from controlplane.keys.kept_secret import Secret

URL, SHOWN = "https://pager.test/hook?key=a", "https://pager.test/***"
STORED = {"url": Secret(URL), "secret": Secret("signs it"), "callback_secret": None}


def whole(kind: str | None = "webhook", **said: Any) -> DestinationReplace:
    return with_kept(DestinationReplace.model_validate({"name": "pager", **said}), kind, SHOWN, STORED)


def test_what_is_kept_is_what_is_there_and_the_rest_is_as_it_was_said() -> None:
    kept = whole(url_kept=True, secret_kept=True, enabled=False)
    assert (kept.url, kept.secret, kept.callback_secret, kept.enabled) == (URL, "signs it", None, False)
    assert whole(url_kept=True).secret is None
    new = whole(url="https://pager.test/other", secret_kept=True)
    assert (new.url, new.secret) == ("https://pager.test/other", "signs it")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"url": "https://elsewhere.test/hook", "secret_kept": True}, "secret_kept"),
        ({"url": "http://pager.test/hook", "secret_kept": True}, "secret_kept"),
        ({"url_kept": True, "secret_kept": True, "kind": "opsgenie"}, "secret_kept"),
        ({"secret_kept": True}, "secret_kept"),
        ({"url_kept": True, "secret": "another one", "secret_kept": True}, "secret_kept"),
        ({"url_kept": True, "callback_secret_kept": True}, "callback_secret_kept"),
    ],
)
def test_a_secret_goes_to_no_other_place_and_is_not_made_up(said: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        whole(**said)
    assert refused.value.detail["field"] == field


def test_what_cannot_be_read_any_more_is_asked_for() -> None:
    wanted = DestinationReplace(name="pager", url_kept=True)
    with pytest.raises(BadRequest, match="url_kept: the url that is there cannot be read any more"):
        with_kept(wanted, "webhook", SHOWN, {"url": Secret(None)})


def test_nothing_is_kept_of_what_is_not_there() -> None:
    with pytest.raises(BadRequest, match="has no url that could be kept"):
        with_kept(DestinationReplace(name="pager", url_kept=True), None, "", {})
