"""What a command writes into a file, or to standard output. Guarantee: what has the file's name is whole."""

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import typer


def write_whole(chunks: Iterable[bytes], out: Path | None) -> None:
    """To the file by way of one beside it; None: to standard output. Raises OSError."""
    if out is None:
        try:
            for chunk in chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Whoever reads has enough (head): nothing to say, and nothing left for Python to flush at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        return
    part = out.with_name(f"{out.name}.part{os.getpid()}")
    try:
        with part.open("wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
        part.replace(out)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
