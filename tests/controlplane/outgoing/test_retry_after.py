"""Retry-After as receivers write it."""

from datetime import UTC, datetime

import pytest

from controlplane.outgoing.retry_after import LONGEST_S, retry_after_s

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Tue, 01 Jan 2030 12:00:30 GMT", 30.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0.0),
        ("999999999999", LONGEST_S),
        ("Tue, 01 Jan 2030 18:00:00 GMT", LONGEST_S),
        ("soon", None),
        ("-5", None),
        ("٣", None),
    ],
)
def test_retry_after(header: str | None, wanted: float | None) -> None:
    assert retry_after_s(header, NOW) == wanted
