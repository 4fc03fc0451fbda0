"""Parts put together to bundles: each once, in the order of its file, near each other in time."""

from collections.abc import Sequence

import pytest

from controlplane.command.load import upload_requests as module
from controlplane.command.load.batches import Batch
from controlplane.command.load.upload_requests import requests, side_by_side
from controlplane.contract.reports import report_bundle


def part(stream: bytes, number: int, window: int = 0, path: str = report_bundle.PATH, size: int = 10) -> Batch:
    return Batch(stream, number, path, {}, b"x" * size, 1, size, "", window)


def numbers(found: Sequence[Batch]) -> list[tuple[bytes, int]]:
    return [(batch.stream, batch.number) for batch in found]


def test_files_are_read_side_by_side_in_the_order_of_time() -> None:
    first = [part(b"a", 1, 10), part(b"a", 2, 30), part(b"a", 3, 50)]
    second = [part(b"b", 1, 20), part(b"b", 2, 25), part(b"b", 3, 60)]
    found = list(side_by_side([first, second]))
    assert [batch.window for batch in found] == [10, 20, 25, 30, 50, 60]


def test_a_file_out_of_order_keeps_its_own_order() -> None:
    first = [part(b"a", number, window) for number, window in enumerate([50, 10, 40], 1)]
    second = [part(b"b", number, window) for number, window in enumerate([20, 30], 1)]
    found = list(side_by_side([first, second]))
    for stream, batches in ((b"a", first), (b"b", second)):
        assert [batch for batch in found if batch.stream == stream] == batches


def test_bundles_are_bounded_and_what_is_none_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUNDLE_PARTS", 4)
    monkeypatch.setattr(module, "BUNDLE_BYTES", 100)
    batches = [part(b"a", number) for number in range(1, 7)]
    batches += [part(b"a", 7, path="/v1/metrics"), part(b"a", 8, path="/v1/metrics"), part(b"a", 9, size=99)]
    batches += [part(b"a", 10, size=1), part(b"a", 11, size=1000), part(b"a", 12)]
    found = list(requests(batches))
    assert [numbers(request.batches) for request in found] == [
        [(b"a", number) for number in group] for group in ((1, 2, 3, 4), (5, 6), (7,), (8,), (9, 10), (11,), (12,))
    ]
    assert [request.is_bundle for request in found] == [True, True, False, False, True, True, True]
