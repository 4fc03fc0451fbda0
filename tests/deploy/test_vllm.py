"""What deploy/vllm/ ships can be read by those who are to read it, and names only settings that there are."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from agents.agent.settings import AgentSettings
from tests.read_settings import read

FOLDER = Path(__file__).resolve().parents[2] / "deploy/vllm"
UNITS = sorted(FOLDER.glob("*.service"))
SCHEDULER = "--scheduler-cls=tailwright_vllm.scheduler.live_scheduler"


def unit(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return dict(parser["Service"])


def variables(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def check_settings(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AgentSettings:
    """Every variable is a setting of the agent, and together they are enough to start one."""
    known = {f"TAILWRIGHT_{name.upper()}" for name in AgentSettings.model_fields}
    assert set(given) <= known
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings: AgentSettings = read(AgentSettings, "agent", [])
    return settings


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_an_agent_with_settings_that_there_are(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(FOLDER / "agent.env").items():
        monkeypatch.setenv(name, value)
    service = unit(path)
    program, command, *flags = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/tailwright") and command == "agent"
    settings = read(AgentSettings, "agent", flags)
    assert settings.backend == "vllm" and (settings.vllm_dir is None) != (settings.vllm_node_file is None)
    assert settings.server_url == "https://tailwright.example:7300" and settings.client_files.any
    assert service["Restart"] == "always"


def test_the_managed_agent_ends_alone() -> None:
    service = unit(FOLDER / "tailwright-agent-managed.service")
    assert service["KillMode"] == "process" and service["OOMPolicy"] == "continue"
    assert "PrivateTmp" not in service and service["RuntimeDirectoryPreserve"] == "yes"


def test_attached_agent_and_server_share_one_folder() -> None:
    drop_in = unit(FOLDER / "vllm.service.d/tailwright.conf")
    folder = drop_in["Environment"].removeprefix("TAILWRIGHT_VLLM_DIR=")
    agent = unit(FOLDER / "tailwright-agent-attach.service")
    assert f"--vllm-dir {folder} " in agent["ExecStart"]
    assert folder == f"/run/{drop_in['RuntimeDirectory']}" and agent["ReadWritePaths"].endswith(folder)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_the_units(path: Path, tmp_path: Path) -> None:
    # Where the command is not installed that alone would be found wrong: /bin/true stands for it.
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/tailwright/.venv/bin/tailwright", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=60)
    about = [line for line in done.stderr.splitlines() if path.name in line]
    assert not about, done.stderr


def test_compose_shares_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    vllm, agent = services["vllm"], services["agent"]
    assert SCHEDULER in vllm["command"]
    folder = vllm["environment"]["TAILWRIGHT_VLLM_DIR"]
    assert f"shared:{folder}" in vllm["volumes"] and f"shared:{folder}" in agent["volumes"]
    given = {name: _default(value) for name, value in agent["environment"].items()}
    settings = check_settings(given, monkeypatch)
    assert str(settings.vllm_dir) == folder and settings.backend == "vllm"
    for service in (vllm, agent):
        assert (FOLDER.parents[1] / service["build"]["dockerfile"]).is_file()


def test_the_pod_shares_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
    pod = next(one for one in documents if one["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    vllm, agent = pod["containers"]
    assert SCHEDULER in vllm["args"] and pod["enableServiceLinks"] is False
    folder = _variables(vllm)["TAILWRIGHT_VLLM_DIR"]
    for container in (vllm, agent):
        mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert mounted[folder] == "shared"
    volumes = {volume["name"] for volume in pod["volumes"]} | {"state"}
    assert {mount["name"] for one in (vllm, agent) for mount in one["volumeMounts"]} == volumes
    given = {name: value for name, value in _variables(agent).items() if name != "POD_IP"}
    settings = check_settings(given, monkeypatch)
    assert str(settings.vllm_dir) == folder and settings.backend == "vllm"


def test_kubernetes_takes_the_pods() -> None:
    for one in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()):
        kubernetes_validate.validate(one, "1.33", strict=True)


def test_the_images_copy_what_is_there() -> None:
    for path in FOLDER.glob("*.Dockerfile"):
        for line in path.read_text().splitlines():
            words = line.split()
            if words and words[0] == "COPY":
                assert all((FOLDER.parents[1] / word).exists() for word in words[1:-1]), line


def _default(value: str) -> str:
    """Compose's ${NAME:-default} and ${NAME:?needed}."""
    name, _, default = value.removeprefix("${").removesuffix("}").partition(":")
    if not value.startswith("${"):
        return value
    return default[1:] if default.startswith("-") else f"http://{name.lower().replace('_', '-')}"


def _variables(container: dict[str, Any]) -> dict[str, str]:
    """A value that Kubernetes fills in stands as "given"."""
    return {one["name"]: one.get("value", "given") for one in container["env"]}
