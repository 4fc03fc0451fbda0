"""`tailwright bench`: the scripts of benchmarks/, one after another."""

import subprocess
import sys
from typing import Annotated

import typer

from controlplane.terminal.checkout import ROOT
from controlplane.terminal.subcommand import subcommand

FOLDER = ROOT / "benchmarks"


app = subcommand()


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; all when none is named.")] = None,
) -> None:
    """Run benchmarks; each prints its table with seed, versions and repeats (docs/benchmarks.md explains them)."""
    known = {path.stem: path for path in sorted(FOLDER.glob("[a-z]*.py"))}
    for name in names or known:
        if name not in known:
            typer.echo(f"no benchmark {name!r}; there are: {', '.join(known)}", err=True)
            raise typer.Exit(2)
    for name in names or known:
        typer.echo(f"== {name}")
        done = subprocess.run([sys.executable, known[name]], cwd=ROOT, check=False)
        if done.returncode:
            raise typer.Exit(done.returncode)
