"""vLLM's own environment: versions, the plugin, and what only matters on some machines."""

from collections.abc import Iterator

from agents.backends.vllm.doctor.installation import Installation, import_problems, plugin_version
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.doctor_finding import Finding

SUPPORTED_PYTHON = (3, 10)
"""Of the plugin; vLLM itself may want a newer one."""


def findings(found: Installation, *, thorough: bool = True) -> Iterator[Finding]:
    """`thorough` imports vLLM over there, which takes half a minute."""
    install = f"{found.python} -m pip install {ROOT / 'agents/vllm_plugin'}"
    yield Finding("executable", True, str(found.executable))
    new_enough = tuple(map(int, found.python_version.split(".")[:2])) >= SUPPORTED_PYTHON
    yield Finding("python", new_enough, f"{found.python_version} ({found.python})", "Python 3.10 or newer")
    yield _version(found)
    yield from _plugin(found, install)
    if found.vllm is not None and found.plugin is not None and thorough:
        problems = import_problems(found)
        for name, part in (("scheduler", "scheduler class"), ("stat_logger", "stat logger")):
            problem = problems.get(name, "did not say")
            yield Finding(part, not problem, problem or "loads in this vLLM", f"{install}; see its VERSIONS.md")
    either = " and ".join(name for name, there in (("http", found.otlp_http), ("grpc", found.otlp_grpc)) if there)
    yield Finding(
        "traces",
        bool(either),
        f"OTLP over {either}" if either else "no OTLP exporter: vLLM can send no traces",
        f"{found.python} -m pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
        needed=False,
    )
    if found.vllm is not None and "cpu" in found.vllm:
        there = sorted(path.name for path in (found.prefix / "lib").glob("libiomp5.so*"))
        yield Finding(
            "Intel OpenMP",
            bool(there),
            f"{found.prefix / 'lib' / there[0]}: put it into LD_PRELOAD" if there else "not in this environment",
            f"{found.python} -m pip install intel-openmp; vLLM drafts slowly on a CPU without it",
            needed=False,
        )


def _version(found: Installation) -> Finding:
    if found.vllm is None:
        return Finding("vLLM", False, f"not installed in {found.prefix}", "run `make vllm`, or name another executable")
    if not found.tried:
        return Finding("vLLM", True, found.vllm)
    tried = found.vllm.partition("+")[0] in found.tried
    told = f"{found.vllm}, {'tried' if tried else 'not among those tried: ' + ', '.join(found.tried)}"
    return Finding("vLLM", tried, told, "what the plugin does not know of it stays off, and says so", needed=False)


def _plugin(found: Installation, install: str) -> Iterator[Finding]:
    wanted = plugin_version()
    if found.plugin is None:
        yield Finding("plugin", False, "tailwright-vllm is not installed: no raw statistics, no live limits", install)
        return
    if found.plugin != wanted:
        yield Finding("plugin", False, f"version {found.plugin}, this checkout has {wanted}", install)
    else:
        same = found.plugin_is_this_source
        told = f"{found.plugin} ({found.plugin_folder})"
        yield Finding(
            "plugin", same, told if same else f"{told}, of another state than this checkout", install, needed=False
        )
    yield Finding(
        "entry point",
        found.entry_point is not None,
        found.entry_point or "vllm.stat_logger_plugins has no tailwright: vLLM will not load the stat logger",
        install,
    )
