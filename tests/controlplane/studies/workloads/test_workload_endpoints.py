"""Kept workloads, as the typed client calls them; and what would be kept, from hostile hands."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.bodies.workload import WorkloadCreate, WorkloadFormat
from controlplane.contract.errors import BadRequest, Conflict, Forbidden, NotFound
from controlplane.contract.planning.packed_traffic import packed
from controlplane.contract.planning.traffic_figures import figures_of
from controlplane.studies.workloads import workload_store
from controlplane.studies.workloads.workload_checks import LARGEST_BYTES, MOST_REQUESTS
from tuner.workload.generate import CONV, generate

Make = Callable[[Scope], Client]
MADE = generate(CONV, seed=1, rate_per_s=5, requests=60)
FRIDAY = WorkloadCreate(name="friday", format=WorkloadFormat.MOONCAKE, traffic=packed([MADE]))


def test_a_workload_is_kept_told_of_and_forgotten(client: Make) -> None:
    person, reader = client(Scope.OPERATE), client(Scope.READ)
    made = person.add_workload(FRIDAY)
    assert (made.name, made.format, made.created_by) == ("friday", "mooncake", "operate")
    assert made.figures == figures_of(MADE) and made.packed_bytes == len(FRIDAY.traffic)
    assert reader.workloads() == [made] and reader.kept_workload("friday") == made
    again = reader.kept_traffic("friday")
    assert [(one.timestamp, one.input_length, one.output_length) for one in again.requests] == [
        (one.timestamp, one.input_length, one.output_length) for one in MADE.requests
    ]
    assert figures_of(again) == made.figures
    with pytest.raises(Conflict, match="kept already"):
        person.add_workload(FRIDAY)
    for forbidden in (lambda: reader.add_workload(FRIDAY), lambda: reader.remove_workload("friday")):
        with pytest.raises(Forbidden):
            forbidden()
    person.remove_workload("friday")
    assert reader.workloads() == []
    for gone in (reader.kept_workload, reader.kept_traffic, person.remove_workload):
        with pytest.raises(NotFound, match="no workload 'friday'"):
            gone("friday")


def test_there_are_only_so_many(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_store, "MOST_KEPT", 2)
    person = client(Scope.OPERATE)
    for name in ("a", "b"):
        person.add_workload(FRIDAY.model_copy(update={"name": name}))
    with pytest.raises(Conflict, match="2 workloads are kept already; remove one"):
        person.add_workload(FRIDAY.model_copy(update={"name": "c"}))


def test_a_study_names_one_that_is_kept(client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    wanted = spec.model_copy(update={"workload": "friday"})
    with pytest.raises(BadRequest, match="no workload 'friday' is kept; add it by") as refused:
        person.create_study(wanted)
    assert refused.value.detail["field"] == "workload"
    person.add_workload(FRIDAY)
    assert person.create_study(wanted).spec.workload == "friday"
    assert person.create_study(spec.model_copy(update={"workload": "profile:chat@4"})).spec.workload


def said(document: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(document).encode(), 9)).decode()


ABOUT = json.loads(MADE.model_copy(update={"requests": []}).model_dump_json())
ROWS = [[250.0 * place, 40, 8, []] for place in range(6)]


def rows(changed: Any, at: int = 2, **about: Any) -> str:
    told = [changed if place == at else row for place, row in enumerate(ROWS)]
    return said([{"about": {**ABOUT, **about}, "requests": told}])


HOSTILE = {
    "no base64": ("no base64!", "is no packed workload"),
    "no deflate": ("AAAA", "is no packed workload"),
    "a bomb": (base64.b64encode(zlib.compress(b"[" * (LARGEST_BYTES + 1), 9)).decode(), "larger than 8,388,608 bytes"),
    "half of it": (FRIDAY.traffic[:400], "ends too early"),
    "deep nesting": (base64.b64encode(zlib.compress(b"[" * 100_000, 9)).decode(), "is no packed workload"),
    "no list": (said(3), "is no packed workload"),
    "a list of nothing": (said([3]), "is no packed workload"),
    "none": (said([]), "wants one workload, got 0"),
    "two": (packed([MADE, MADE]), "wants one workload, got 2"),
    "no requests": (said([{"about": ABOUT, "requests": []}]), "wants 5 to 50,000 requests, got 0"),
    "too many": (
        said([{"about": ABOUT, "requests": [[place, 1, 1, []] for place in range(MOST_REQUESTS + 1)]}]),
        "got 50,001; keep a part of it: --requests N",
    ),
    "text for a length": (rows([500.0, "many", 8, []]), r"workload \(input_length: Input should be a valid integer"),
    "a negative arrival": (
        rows([-1.0, 40, 8, []]),
        r"workload \(timestamp: Input should be greater than or equal to 0",
    ),
    "no finite arrival": (rows([float("inf"), 40, 8, []], at=5), r"workload \(timestamp: Input should be less than or"),
    "no order": (rows([900.0, 40, 8, []]), "not in the order of their arrivals"),
    "too long": (rows([1e13, 40, 8, []], at=5), "31 days at most"),
    "all at once": (said([{"about": ABOUT, "requests": [[0, 40, 8, []]] * 6}]), "wants more than 0"),
    "a book": (rows([500.0, 2**24 + 1, 8, []]), "request 3: more than 16,777,216 tokens"),
    "more blocks than tokens": (rows([500.0, 40, 8, [1, 1, 1]]), "request 3: 3 blocks do not fit 40 tokens"),
    "no block size": (rows(ROWS[2], block_size=0), "block size 0"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_traffic_is_refused_and_nothing_kept(name: str, client: Make) -> None:
    traffic, why = HOSTILE[name]
    person = client(Scope.OPERATE)
    with pytest.raises(BadRequest, match=why) as refused:
        person.add_workload(FRIDAY.model_copy(update={"traffic": traffic}))
    assert refused.value.detail["field"] == "traffic"
    assert person.workloads() == []


@pytest.mark.parametrize("name", ["", "-x", "a b", "profile:chat@4", "x" * 65, "a/b"])
def test_a_name_is_plain(name: str, client: Make) -> None:
    with pytest.raises(BadRequest):
        client(Scope.OPERATE).add_workload(FRIDAY.model_copy(update={"name": name}))
