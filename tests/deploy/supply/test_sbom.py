"""The bill of materials is what the locks say, valid CycloneDX, whole, and names what is carried within."""

import json
import re
import sysconfig
from importlib import metadata
from pathlib import Path

import cyclonedx.schema
import jsonschema_rs
import pytest
from packaging.utils import canonicalize_name

from deploy.supply import bundled, lock_file, sbom

SITE = Path(sysconfig.get_path("purelib"))
SCHEMAS = Path(cyclonedx.schema.__file__).parent / "_res"


@pytest.fixture(scope="module")
def bill():
    return json.loads(sbom.FILE.read_text())


@pytest.mark.slow
def test_it_is_up_to_date():
    assert sbom.FILE.read_text() == sbom.bill(), "run `make sbom`"


def test_it_is_the_same_where_cuda_is_installed(monkeypatch):
    real, cuda = metadata.requires, lock_file.read("torch-cuda")
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy"] if name in cuda else real(name))
    assert sbom.FILE.read_text() == sbom.bill()


def validator():
    def schema(name):
        return json.loads((SCHEMAS / f"{name}.SNAPSHOT.schema.json").read_text())

    beside = {name: schema(name) for name in ("spdx", "jsf-0.82")}
    at = "http://cyclonedx.org/schema/"
    registry = jsonschema_rs.Registry(
        [(f"{at}{name}.SNAPSHOT.schema.json", content) for name, content in beside.items()]
    )
    return jsonschema_rs.validator_for(schema("bom-1.6"), registry=registry)


def test_it_is_valid_cyclonedx(bill):
    assert [error.message for error in validator().iter_errors(bill)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda bill: bill["components"][0].pop("name"),
        lambda bill: bill["components"][0].update(scope="perhaps"),
        lambda bill: bill["components"][0]["externalReferences"][0]["hashes"][0].update(content="xyz"),
    ],
)
def test_the_schema_refuses_what_is_wrong(bill, wrong):
    copy = json.loads(json.dumps(bill))
    wrong(copy)
    assert not validator().is_valid(copy)


def test_each_locked_distribution_is_there_by_hash(bill):
    for name, pin in {
        n: p for file in (*sbom.REQUIRED, *sbom.OPTIONAL) for n, p in lock_file.read(file).items()
    }.items():
        (found,) = [one for one in bill["components"] if one["name"] == name]
        assert found["purl"] == f"pkg:pypi/{name}@{pin.version}"
        assert {one["content"] for one in found["externalReferences"][0]["hashes"]} == set(pin.hashes)


def test_whoever_is_there_is_asked_for(bill):
    asks = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    reached, open_ends = set(), ["tailwright"]
    while open_ends:
        name = open_ends.pop()
        if name not in reached:
            reached.add(name)
            open_ends += asks[name]
    assert reached == asks.keys()
    assert asks.keys() - {"tailwright"} == {one["bom-ref"] for one in bill["components"] if "bom-ref" in one}


def test_native_libraries_within_wheels_are_named():
    locked = {name for file in (*sbom.REQUIRED, *sbom.OPTIONAL) for name in lock_file.read(file)}
    found = {
        canonicalize_name(folder.name.removesuffix(".libs")): {
            re.split(r"-[0-9a-f]{8}|\.so", file.name)[0] for file in folder.iterdir()
        }
        for folder in SITE.glob("*.libs")
    }
    named = {name: {thing.name for thing in things} for name, things in bundled.NATIVE.items()}
    assert {name: libraries for name, libraries in found.items() if name in locked} == named


def test_scripts_that_are_served_have_the_named_versions():
    swagger = (SITE / "fastapi_offline/static/swagger-ui-bundle.js").read_text()
    swagger_ui, redoc = bundled.SCRIPTS["fastapi-offline"]
    assert f'PACKAGE_VERSION:"{swagger_ui.version}"' in swagger
    assert (SITE / "fastapi_offline/static" / f"{redoc.name}.standalone.js").is_file()


NAMED = {thing.name for thing in bundled.CHECKOUT}
SERVED = sorted(str(file.relative_to(lock_file.ROOT)) for file in (lock_file.ROOT / "web/static").rglob("*.*"))


def test_every_file_under_vendor_is_named():
    vendored = {file for file in SERVED if "/vendor/" in file and not file.endswith("README.md")}
    assert vendored == {name for name in NAMED if name.startswith("web/static/")}


@pytest.mark.parametrize("file", [file for file in SERVED if "/vendor/" not in file])
def test_nothing_else_under_static_is_others_work(file):
    """Scripts of others name themselves, their licence or their version at the top, or are in one line."""
    text = (lock_file.ROOT / file).read_text()
    assert not re.search(r"copyright|licen[sc]e|@preserve|sourceMappingURL|^/\*!", text, re.IGNORECASE | re.MULTILINE)
    assert max(map(len, text.splitlines())) < 400, "minified: name it in deploy/supply/bundled.py"


def test_every_model_of_the_checkout_is_named(bill):
    models = {
        str(file.relative_to(lock_file.ROOT)) for file in (lock_file.ROOT / "agents/models").rglob("*.safetensors")
    }
    assert {one["name"] for one in bill["components"] if one["type"] == "machine-learning-model"} == models
