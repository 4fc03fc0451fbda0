"""The form of a destination that is there says what it is, without its secrets, and saved as it is changes nothing."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import Destination
from web.settings.changed_destination import destination_said, replaced_of
from web.settings.routing_fields import silenced_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WORDS = st.text("abcXYZ09.-#@", min_size=1, max_size=8)
DESTINATIONS = st.builds(
    Destination,
    id=st.just(7),
    name=WORDS,
    kind=st.sampled_from(DestinationKind),
    url=st.just("https://hooks.test/***"),
    signed=st.booleans(),
    acknowledges=st.booleans(),
    login=st.none() | WORDS,
    recipients=st.lists(WORDS, max_size=3),
    sender=st.none() | WORDS,
    per_minute=st.none() | st.integers(1, 600),
    title_template=st.none() | WORDS,
    text_template=st.none() | WORDS,
    only=st.none() | st.builds(Silenced, matchers=st.dictionaries(WORDS, WORDS, min_size=1, max_size=2)),
    enabled=st.booleans(),
    created_at=st.just(NOW),
    origin=st.none(),
)


@given(DESTINATIONS)
def test_saved_as_it_is_nothing_is_changed(there: Destination) -> None:
    said = destination_said(there)
    only = silenced_of(said["only"], "only") if said["only"] else None
    given_back = {name: text for name, text in said.items() if name != "only"}
    assert replaced_of({**given_back, "url": "", "secret": "", "callback_secret": ""}, only, there) == there.unchanged()
    assert not any("hooks.test" in text for text in said.values())


def test_what_is_given_anew_is_not_kept_and_off_switches_it_off() -> None:
    there = Destination(
        id=7, name="pager", url="https://hooks.test/***", signed=True, enabled=True, created_at=NOW, acknowledges=True
    )
    fields = {"name": "pager", "kind": "webhook", "url": "https://other.test/x", "secret": "another one"}
    changed = replaced_of(fields, None, there)
    assert (changed.url, changed.url_kept, changed.secret, changed.secret_kept) == (
        *("https://other.test/x", False, "another one", False),
    )
    assert changed.callback_secret_kept and not changed.enabled
