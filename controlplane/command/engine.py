"""`trimtab engine`: the embedded torch engine's server alone."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane.command import extras
from controlplane.command.checkout import ROOT
from controlplane.command.connection import fail
from controlplane.command.rollout import parse_assignments
from controlplane.contract.errors import TrimtabError
from controlplane.contract.knobs import parse_config


def engine(
    model: Annotated[Path, typer.Option(help="Hugging Face folder of a Llama-architecture model.")] = ROOT
    / "agents/models/trimtab-py-5m",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 7400,
    set_: Annotated[
        list[str],
        typer.Option("--set", envvar="TRIMTAB_ENGINE_SET", help="knob=value; may be given several times."),
    ] = [],  # noqa: B006
    served_model_name: Annotated[str | None, typer.Option(help="The name clients ask for; else the folder's.")] = None,
    draft_model: Annotated[Path | None, typer.Option(help="Folder of a draft model with the same tokenizer.")] = None,
    speculative_method: Annotated[str, typer.Option(help="ngram or draft_model.")] = "ngram",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    kv_cache_mib: Annotated[int, typer.Option(help="Memory for the KV cache, MiB.")] = 256,
    max_model_len: Annotated[int | None, typer.Option(help="Most tokens of prompt and output together.", min=2)] = None,
    threads: Annotated[int, typer.Option(help="Torch threads.")] = 1,
    max_waiting: Annotated[int, typer.Option(help="Waiting requests above which new ones get 429.")] = 1024,
) -> None:
    """Serve a model over OpenAI-compatible HTTP, every knob changeable while it runs (GET and PUT /config)."""
    extras.need("engine", "engine")
    from agents.engine import EngineOptions, serve

    try:
        options = EngineOptions(
            model_dir=model,
            host=host,
            port=port,
            served_model_name=served_model_name,
            draft_model_dir=draft_model,
            speculative_method=speculative_method,
            dtype=dtype,
            kv_cache_bytes=kv_cache_mib * 2**20,
            max_model_len=max_model_len,
            num_threads=threads,
            max_waiting=max_waiting,
            config=parse_config(parse_assignments(set_), prefix="--set "),
        )
        serve(options)
    except TrimtabError as error:
        fail(error.message)
