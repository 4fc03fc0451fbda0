"""`tailwright engine`: the embedded torch engine's server alone."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import parse_config
from controlplane.terminal import extras
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
def engine(
    model: Annotated[Path, typer.Option(help="Hugging Face folder of a Llama, Qwen2, Qwen3 or Gemma 3 model.")] = ROOT
    / "agents/models/tailwright-py-5m",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 7400,
    set_: Annotated[
        list[str],
        typer.Option("--set", envvar="TAILWRIGHT_ENGINE_SET", help="knob=value; may be given several times."),
    ] = [],  # noqa: B006
    served_model_name: Annotated[str | None, typer.Option(help="The name clients ask for; else the folder's.")] = None,
    draft_model: Annotated[Path | None, typer.Option(help="Folder of a draft model with the same tokenizer.")] = None,
    speculative_method: Annotated[str, typer.Option(help="ngram, draft_model or early_exit.")] = "ngram",
    early_exit_layer: Annotated[
        int | None, typer.Option(help="Layers that draft with early_exit; else a third of them.", min=1)
    ] = None,
    speculation_gate: Annotated[
        bool,
        typer.Option(
            "--speculation-gate/--no-speculation-gate", help="Give no drafts to requests for which drafting loses."
        ),
    ] = True,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: CUDA where there is one.")] = "cpu",
    kernels: Annotated[
        str, typer.Option(help="native, torch, or auto: native where they can be built and are right.")
    ] = "auto",
    kv_cache_mib: Annotated[int, typer.Option(help="Memory for the KV cache, MiB.")] = 256,
    prefix_caching: Annotated[
        bool, typer.Option("--prefix-caching/--no-prefix-caching", help="Reuse what equal starts of prompts computed.")
    ] = True,
    max_model_len: Annotated[int | None, typer.Option(help="Most tokens of prompt and output together.", min=2)] = None,
    threads: Annotated[int, typer.Option(help="Torch threads.")] = 1,
    max_waiting: Annotated[int, typer.Option(help="Waiting requests above which new ones get 429.")] = 1024,
    max_waiting_tokens: Annotated[
        int | None, typer.Option(help="Tokens of waiting requests above which new ones get 429.")
    ] = None,
    default_timeout_s: Annotated[
        float | None, typer.Option(help="Seconds after which a request that names no timeout is ended.")
    ] = None,
    scheduling_policy: Annotated[str, typer.Option(help="fcfs or priority (lower is more urgent).")] = "fcfs",
    priority_aging_s: Annotated[
        float, typer.Option(help="Seconds of waiting that are worth one level of priority.")
    ] = 10.0,
    long_prompt_threshold: Annotated[
        int, typer.Option(help="Tokens above which a prompt goes to the lane for long ones; 0: no such lane.")
    ] = 0,
    max_long_prefills: Annotated[int, typer.Option(help="Long prompts that are computed at once.")] = 1,
    long_prefill_share: Annotated[
        float, typer.Option(help="Most of a step's token budget for long prompts beside other work.")
    ] = 0.5,
    long_patience_s: Annotated[
        float, typer.Option(help="Seconds: short prompts that come so much later may pass a long one.")
    ] = 5.0,
    quantizations: Annotated[
        str, typer.Option(help="Weight formats that the knob may be set to, separated by commas.")
    ] = "none,int8,int4,fp8",
    itl_target_s: Annotated[
        float | None,
        typer.Option(help="Adjust prompt tokens per step so that 99 % of the gaps between tokens are at most this."),
    ] = None,
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
            early_exit_layer=early_exit_layer,
            speculation_gate=speculation_gate,
            dtype=dtype,
            device=device,
            kernels=kernels,
            kv_cache_bytes=kv_cache_mib * 2**20,
            prefix_caching=prefix_caching,
            max_model_len=max_model_len,
            num_threads=threads,
            max_waiting=max_waiting,
            max_waiting_tokens=max_waiting_tokens,
            default_timeout_s=default_timeout_s,
            scheduling_policy=scheduling_policy,
            priority_aging_s=priority_aging_s,
            long_prompt_threshold=long_prompt_threshold,
            max_long_prefills=max_long_prefills,
            long_prefill_share=long_prefill_share,
            long_patience_s=long_patience_s,
            quantizations=tuple(quantizations.split(",")),
            itl_target_s=itl_target_s,
            config=parse_config(parse_assignments(set_), prefix="--set "),
        )
        serve(options)
    except TailwrightError as error:
        fail(error.message)
