"""deploy/helm: what helm made of the examples is of the present chart, valid for Kubernetes, and closed.

`rendered/` is helm's own output (deploy/helm/render.sh); where helm is installed, it is made again and compared.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml
from fastapi.testclient import TestClient

from controlplane.app.secrets_files import FILES
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.command.up import UpSettings
from controlplane.ledger import signing
from tests.read_settings import read

FOLDER = Path(__file__).resolve().parents[2] / "deploy/helm"
CHART = FOLDER / "tailwright"
NAMES = sorted(path.stem for path in (FOLDER / "examples").glob("*.yaml"))
KUBERNETES = ("1.25", "1.29", "1.33", "1.37")
DATABASE_URL = "postgresql+psycopg://USER:PASSWORD@HOST/DB?sslmode=verify-full&sslrootcert=/tls/ca.crt"
OF_OTHERS = {"ServiceMonitor"}
"""Kinds that the Prometheus operator brings."""


def documents(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((FOLDER / f"rendered/{name}.yaml").read_text()) if one]


def pods(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name of the workload, its pod's spec)."""
    for one in documents(name):
        if one["kind"] in ("Deployment", "StatefulSet"):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def of(kind: str, name: str) -> list[dict[str, Any]]:
    return [one for one in documents(name) if one["kind"] == kind]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_rendered_is_of_the_present_chart(name: str) -> None:
    sources = [CHART / file for file in ("Chart.yaml", "values.yaml", "values.schema.json")]
    sources += [*sorted((CHART / "templates").iterdir()), FOLDER / f"examples/{name}.yaml"]
    present = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    first = (FOLDER / f"rendered/{name}.yaml").read_text().splitlines()[0]
    assert first.endswith(f", of {present}"), "the chart has changed: run deploy/helm/render.sh"


@pytest.mark.skipif(shutil.which(os.environ.get("HELM", "helm")) is None, reason="no helm here")
def test_helm_renders_the_same_again(tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "helm")
    subprocess.run([copy / "render.sh"], check=True, timeout=120)
    for name in NAMES:
        again = list(yaml.safe_load_all((copy / f"rendered/{name}.yaml").read_text()))
        assert [one for one in again if one] == documents(name)


@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_takes_it(name: str) -> None:
    found = [one for one in documents(name) if one["kind"] not in OF_OTHERS]
    assert {one["kind"] for one in found} >= {"Service", "ServiceAccount", "NetworkPolicy"}
    for one in found:
        for version in KUBERNETES:
            kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_restricted(name: str) -> None:
    """Kubernetes' Pod Security Standards, level restricted; and a read-only root, and limits."""
    for _, pod in pods(name):
        assert not pod["automountServiceAccountToken"] and not pod["enableServiceLinks"]
        said = pod["securityContext"]
        assert said["runAsNonRoot"] and said["runAsUser"] > 0 and said["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            closed = container["securityContext"]
            assert closed["capabilities"] == {"drop": ["ALL"]} and closed["readOnlyRootFilesystem"]
            assert closed["allowPrivilegeEscalation"] is False and "memory" in container["resources"]["limits"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claimed = {"data"} if name == "sqlite" else set()
            assert mounted <= {volume["name"] for volume in pod["volumes"]} | claimed
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"emptyDir", "secret"}


def test_secrets_are_named_never_made() -> None:
    for name in NAMES:
        assert not of("Secret", name)
        for _, pod in pods(name):
            for container in pod["containers"]:
                for one in container["env"]:
                    assert (
                        "value" not in one or not one["name"].endswith(("_TOKEN", "_URL")) or "EXTERNAL" in one["name"]
                    )


@pytest.mark.parametrize("name", NAMES)
def test_the_service_is_started_with_settings_that_there_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = dict(pods(name))["tailwright"]
    (container,) = pod["containers"]
    known = {f"TAILWRIGHT_{field.upper()}" for field in UpSettings.model_fields}
    given = {one["name"]: one.get("value", DATABASE_URL) for one in container["env"]}
    pod_ip = given.pop("POD_IP")
    assert pod_ip and set(given) <= known
    for key, value in given.items():
        monkeypatch.setenv(key, value.replace("$(POD_IP)", "10.0.0.7"))
    settings = read(UpSettings, "up", container["args"][1:])
    assert not isinstance(settings, str), settings
    assert settings.tls_client_ca and not settings.tuner and "10.0.0.7" in settings.allowed_hosts
    assert {port["containerPort"] for port in container["ports"]} == {settings.port}
    mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
    files = [settings.data_dir, settings.tls_cert, settings.tls_key, settings.tls_client_ca]
    for file in (*files, *([settings.secrets_key_file] if name == "postgresql" else [])):
        assert any(file.is_relative_to(folder) for folder in mounted), file


def test_the_tokens_files_are_those_of_the_service() -> None:
    (copying,) = dict(pods("postgresql"))["tailwright"]["initContainers"]
    found = re.search(r"for name in (.*); do", copying["args"][0])
    assert found and set(found[1].split()) == {file.filename for file in FILES} | {signing.FILENAME}


def test_the_readme_names_that_database() -> None:
    assert f"`{DATABASE_URL}`" in (CHART / "README.md").read_text()


def test_a_lone_service_has_a_volume_and_several_have_a_database() -> None:
    (alone,) = of("StatefulSet", "sqlite")
    assert alone["spec"]["replicas"] == 1 and alone["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    several = of("Deployment", "postgresql")[0]["spec"]
    assert several["replicas"] == 2 and several["strategy"] == {"type": "Recreate"}
    (budget,) = of("PodDisruptionBudget", "postgresql")
    assert not of("PodDisruptionBudget", "sqlite")
    assert budget["spec"]["selector"] == several["selector"]


@pytest.mark.parametrize("name", NAMES)
def test_services_and_policies_select_pods_that_there_are(name: str) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in documents(name)
        if one["kind"] in ("Deployment", "StatefulSet")
    ]
    selectors = [one["spec"]["selector"] for one in of("Service", name)]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of("NetworkPolicy", name)]
    tuner = {"app.kubernetes.io/component": "tuner"}
    for selector in selectors:
        if name == "sqlite" and tuner.items() <= selector.items():
            continue  # That example has no tuner; the policy is there before one is.
        assert any(selector.items() <= one.items() for one in labels), selector


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({}, ""),
        ({"replica": 3}, "replica"),
        ({"database": {"kind": "mysql"}}, "mysql"),
        ({"database": {"kind": "postgresql"}}, "shorter"),
        ({"image": {"repository": "x", "digest": "latest"}}, "latest"),
        ({"settings": {"PATH": "/"}}, "PATH"),
        ({"networkPolicy": {"databasePort": 0}}, "0"),
        ({"names": ["a,b"]}, "a,b"),
    ],
)
def test_the_schema_takes_the_defaults_and_refuses_what_is_wrong(values: dict[str, Any], wrong: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    merged = {**defaults, **{key: _merged(defaults.get(key), value) for key, value in values.items()}}
    found = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(merged)]
    assert found == [] if not wrong else any(wrong in message for message in found), found


def _merged(default: Any, value: Any) -> Any:
    return {**default, **value} if isinstance(default, dict) and isinstance(value, dict) else value


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_taken_by_the_schema(name: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    values = yaml.safe_load((FOLDER / f"examples/{name}.yaml").read_text())
    merged = {**defaults, **{key: _merged(defaults[key], value) for key, value in values.items()}}
    assert [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(merged)] == []


@pytest.mark.slow
def test_replicas_that_start_with_the_same_secrets_are_one_service(postgres_schema_url: str, tmp_path: Path) -> None:
    """The README's Secrets, from a first start on SQLite; then two replicas, each by the init container's script."""
    first = tmp_path / "first"
    create_app(ServiceSettings(data_dir=first))
    token = (first / FILES[0].filename).read_text().strip()
    (copying,) = dict(pods("postgresql"))["tailwright"]["initContainers"]
    key = tmp_path / "secrets.key"
    shutil.copy(first / "secrets.key", key)
    key.chmod(0o440)
    heads, tokens = [], []
    for name in ("one", "two"):
        script = copying["args"][0].replace("/data/", f"{tmp_path / name}/").replace("/run/tokens/", f"{first}/")
        subprocess.run([*copying["command"], script], check=True, timeout=60)
        data = tmp_path / name / "tailwright"
        assert {path.stat().st_mode & 0o777 for path in data.iterdir()} == {0o600}
        settings = ServiceSettings(data_dir=data, database_url=postgres_schema_url, secrets_key_file=key)
        with TestClient(create_app(settings), base_url="http://127.0.0.1:7300") as http:
            answer = http.get("/api/v1/tokens", headers={"Authorization": f"Bearer {token}"})
            tokens.append({(one["id"], one["name"]) for one in answer.raise_for_status().json()["items"]})
            heads.append(http.get("/readyz").json()["ledger"])
        assert (data / FILES[0].filename).read_text().strip() == token and not (data / "secrets.key").exists()
    assert tokens[0] == tokens[1] and {name for _, name in tokens[0]} == {file.name for file in FILES}
    assert heads[0] == heads[1], "one key signs for both"
