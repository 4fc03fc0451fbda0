"""Fingerprint, silence and signature, each by itself."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.matching.label_match import matches
from controlplane.alerts.rules.silence import active, silenced
from controlplane.contract.bodies.alerts import Silence, Silenced
from controlplane.contract.signature import sign, verify

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LABELS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5)


def test_fingerprint_never_changes() -> None:
    """Receivers remember it: a change here is a breaking one."""
    assert fingerprint(3, {"pool": "main", "metric": "ttft"}) == "1443cd57e612067b"


@given(LABELS, st.integers(1, 5))
def test_fingerprint_ignores_the_order_of_labels(labels: dict[str, str], rule: int) -> None:
    assert fingerprint(rule, labels) == fingerprint(rule, dict(reversed(labels.items())))
    assert fingerprint(rule, labels) != fingerprint(rule + 1, labels)
    assert fingerprint(rule, labels) != fingerprint(rule, {**labels, "more": "x-more-x"})


def test_silence() -> None:
    told: dict[str, Any] = {"starts_at": NOW, "ends_at": NOW + timedelta(hours=1), "created_by": "me", "comment": "c"}
    one = Silence(id=1, matchers={"pool": "main"}, **told)
    labels = {"pool": "main", "metric": "ttft"}
    assert matches(one, labels) and not matches(Silenced(matchers={"pool": "other"}), labels)
    assert not matches(Silenced(matchers={"node": "a"}), labels) and not matches(Silenced(), labels)
    assert matches(Silenced(matchers={"pool": "main"}, patterns={"metric": "ttft|itl"}), labels)
    assert not matches(Silenced(matchers={"pool": "main"}, patterns={"metric": "tt"}), labels), "the whole value counts"
    assert not matches(Silenced(patterns={"node": ".*"}), labels), "a label that is not there matches nothing"
    assert (
        active(one, NOW) and not active(one, NOW + timedelta(hours=1)) and not active(one, NOW - timedelta(seconds=1))
    )
    early = one.model_copy(update={"ended_early_at": NOW + timedelta(minutes=1)})
    assert silenced([early], labels, NOW) and not silenced([early], labels, NOW + timedelta(minutes=2))


def test_signature(expected_mac: Any) -> None:
    body = '{"ä": 1}'.encode()
    header = sign("secret", body, 1000)
    assert header == f"t=1000,v1={expected_mac('secret', '1000', body)}"
    assert verify("secret", body, header, 1100.0) and verify("secret", body, header, 900.0)
    assert not verify("secret", body, header, 1301.0) and verify("secret", body, header, 1301.0, max_age_s=600)
    assert not verify("Secret", body, header, 1000.0) and not verify("secret", body + b" ", header, 1000.0)
    assert not verify("secret", body, header.replace("t=1000", "t=1001"), 1000.0)


@given(st.text(max_size=40))
def test_signature_of_rubbish_is_false(header: str) -> None:
    assert not verify("secret", b"x", header, 1000.0)
