"""How strong the tests of the cores are: mistakes put into a module, one at a time, that its own tests do not see.

    make mutate [MODULE=controlplane/auth/store.py] [SEED=1] [COUNT=40] [JOBS=1]

`mutation_cores.toml` names the cores' modules, the tests of each, and mutants that are no mistake (nobody outside could
see them), with the reason. Of each module up to COUNT mutants are drawn by the seed; each is written into a copy of the
checkout and meets the module's tests in a process of its own, until the first failure: as `make test` repeats them, and
where it passes those as `make long` does. What none sees is printed.

The tests must pass on the module as it is, and must have imported it from the copy: else its figures would mean
nothing, and this ends. A mutant that never ends counts as seen. Hypothesis draws the same examples each time and does
not shrink them. Nothing is measured in time: a busy machine gives the same table.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from math import ceil
from pathlib import Path

from benchmarks.mutation_measures.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
CORES = ROOT / "benchmarks/mutation_cores.toml"
WARM = ("numpy", "pytest", "hypothesis", "httpx", "orjson", "pydantic", "fastapi.testclient", "sqlmodel")
"""What most tests import and no mutant touches: loaded once, here, before a process is split off for each mutant."""
MOST_BYTES = 16 << 30
LONGEST_S = 1800
"""For tests that wait for ever; those that compute for ever are ended by a limit of CPU time."""
UNENDING = 124


@dataclass(frozen=True)
class Core:
    """A module, its tests (what pytest is told), and its mutants that are no mistake: their names, and why."""

    module: str
    tests: tuple[str, ...]
    harmless: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """What came of a module's mutants."""

    core: Core
    mutants: int
    survived: tuple[Mutant, ...]
    harmless: tuple[Mutant, ...]


def cores() -> list[Core]:
    with CORES.open("rb") as file:
        found = tomllib.load(file)
    return [Core(name, tuple(told["tests"]), told.get("harmless", {})) for name, told in found.items()]


def copy_checkout(into: Path) -> None:
    """The checkout's own files: Python copied, since it is changed, all else linked."""
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".py"):
                shutil.copy(ROOT / name, into / name)
            else:
                (into / name).symlink_to(ROOT / name)


def run_tests(
    copy: Path, core: Core, *, limit_s: int = LONGEST_S, keep_bytecode: bool = False, at_length: bool = True
) -> int:
    """pytest's exit status, in a process split off from this one; another than 0 when it wanted more CPU than that.

    at_length: what is repeated is repeated as often as `make long` has it.
    """
    child = os.fork()
    if child == 0:
        os._exit(_tested(copy, core, limit_s, keep_bytecode, at_length))
    ends = time.monotonic() + LONGEST_S
    while time.monotonic() < ends:
        if (status := os.waitpid(child, os.WNOHANG))[0]:
            _end_group(child)
            return os.waitstatus_to_exitcode(status[1])
        time.sleep(0.02)
    _end_group(child)
    os.waitpid(child, 0)
    return UNENDING


def _children_s() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _tested(copy: Path, core: Core, limit_s: int, keep_bytecode: bool, at_length: bool) -> int:
    import hypothesis
    import pytest

    os.setsid()
    os.chdir(copy)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    with open(copy / "output.txt", "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="" if keep_bytecode else "1")
    os.environ["TAILWRIGHT_TEST_SOAK"] = "1" if at_length else "0"
    sys.dont_write_bytecode = not keep_bytecode
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in ("", str(ROOT)))]
    for name in [name for name in sys.modules if (ROOT / name.split(".")[0]).is_dir()]:
        del sys.modules[name]  # It is the checkout's, not the copy's.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutation", phases=phases, database=None, derandomize=True, deadline=None)
    hypothesis.settings.load_profile("mutation")
    quiet = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"]
    result = int(pytest.main([*quiet, *core.tests]))
    tested = sys.modules.get(core.module.removesuffix(".py").replace("/", "."))
    if result == 0 and not str(getattr(tested, "__file__", "")).startswith(str(copy)):
        print(f"{core.module} was not imported from {copy}")
        return 3
    return result


def score(core: Core, count: int, seed: int, tell: Callable[[str], object]) -> Score:
    """Meets the mutants of one module. Raises SystemExit where its tests do not pass as it is."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder).resolve()
        copy_checkout(copy)
        before_s = _children_s()
        if run_tests(copy, core, keep_bytecode=True) != 0:
            raise SystemExit(f"{core.module}: its tests do not pass\n{(copy / 'output.txt').read_text()[-3000:]}")
        limit_s = ceil(10 + 5 * (_children_s() - before_s))
        target = copy / core.module
        source = target.read_text(encoding="utf-8")
        for cached in target.parent.glob(f"__pycache__/{target.stem}.*"):
            cached.unlink()
        drawn = mutants(source, count, f"{seed}:{core.module}")
        survived: list[Mutant] = []
        harmless: list[Mutant] = []
        for mutant in drawn:
            target.write_text(mutant.source, encoding="utf-8")
            # Most are seen by few repeats already.
            if all(run_tests(copy, core, limit_s=limit_s, at_length=long) == 0 for long in (False, True)):
                (harmless if mutant.name in core.harmless else survived).append(mutant)
        found = Score(core, len(drawn), tuple(survived), tuple(harmless))
        tell(f"{core.module}: {len(drawn)} mutants, {len(survived)} survived, {len(harmless)} harmless")
        for mutant in survived:
            tell(f"  {core.module}:{mutant.line} {mutant.name}")
        return found


def table(scores: list[Score]) -> str:
    """Markdown: the figures of each module, then what survives and why some are no mistake."""
    lines = ["| module | mutants | survived | equivalent |", "|---|---|---|---|"]
    for one in scores:
        lines.append(f"| {one.core.module} | {one.mutants} | {len(one.survived)} | {len(one.harmless)} |")
    total, alive, no_mistake = (sum(n) for n in zip(*[_figures(one) for one in scores], strict=True))
    lines.append(f"| all | {total} | {alive} ({alive / max(1, total - no_mistake):.1%}) | {no_mistake} |")
    lines += ["", "What survives:", ""]
    lines += [f"- {one.core.module}, {mutant.name}" for one in scores for mutant in one.survived]
    lines += ["", "Equivalent:", ""]
    for one in scores:
        lines += [f"- {one.core.module}, {mutant.name}: {one.core.harmless[mutant.name]}" for mutant in one.harmless]
    return "\n".join(lines)


def _figures(one: Score) -> tuple[int, int, int]:
    return one.mutants, len(one.survived), len(one.harmless)


def _score(told: tuple[Core, int, int]) -> Score:
    return score(*told, tell=lambda line: print(line, flush=True))


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutation of the cores.")
    parser.add_argument("--module", default="", help="only modules whose path contains this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40, help="mutants of a module, at most")
    parser.add_argument("--jobs", type=int, default=1, help="modules at a time")
    asked = parser.parse_args()
    chosen = [core for core in cores() if asked.module in core.module]
    if not chosen:
        parser.error(f"no core's path contains {asked.module!r}; they are listed in {CORES.relative_to(ROOT)}")
    for name in WARM:
        import_module(name)
    with multiprocessing.get_context("fork").Pool(asked.jobs, maxtasksperchild=1) as pool:
        scores = pool.map(_score, [(core, asked.count, asked.seed) for core in chosen], chunksize=1)
    print(table(scores))
    return 1 if any(one.survived for one in scores) else 0


if __name__ == "__main__":
    sys.exit(main())
