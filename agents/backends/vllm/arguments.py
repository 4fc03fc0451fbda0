"""Which of vLLM's command-line arguments the agent sets itself, and so nobody else may. Pure.

Spelling as vLLM reads it: `--flag value`, `--flag=value`, `--a_flag`, `--flag.key value` (JSON fields one by one).
"""

OWN = {
    "--model": "set variants.<format>.model",
    "--served-model-name": "set served_model_name",
    "--host": "clients come to the proxy: set host",
    "--port": "set port and server_ports",
    "--uds": "the server listens on one of server_ports",
    "--ssl-keyfile": "set tls_key and server_ca_file",
    "--ssl-certfile": "set tls_cert and server_ca_file",
    "--config": "put its arguments into arguments",
    "--scheduler-cls": "live knobs need the agent's scheduler class",
    "--max-num-batched-tokens": "set capacity.max_num_batched_tokens and initial.max_num_batched_tokens",
    "--max-num-scheduled-tokens": "set initial.max_num_batched_tokens",
    "--max-num-seqs": "set capacity.max_num_seqs and initial.max_num_seqs",
    "--max-num-active-seqs": "set initial.max_num_seqs",
    "--long-prefill-token-threshold": "set initial.prefill_chunk_size",
    "--speculative-config": "set the table [speculative] and capacity.num_speculative_tokens",
    "-sc": "set the table [speculative] and capacity.num_speculative_tokens",
}
"""Argument, and where its value belongs instead."""
OF_A_VARIANT = {
    "--quantization": "set it in variants.<format>.arguments",
    "-q": "set it in variants.<format>.arguments",
}


def check_arguments(arguments: list[str], *, in_variant: bool) -> list[str]:
    """The list itself. Raises ValueError that names the first argument that is not the node file's to set."""
    refused = OWN if in_variant else {**OWN, **OF_A_VARIANT}
    for given in arguments:
        if (mend := refused.get(flag_of(given))) is not None:
            raise ValueError(f"{given.partition('=')[0]} is the agent's to set; {mend}")
    return arguments


def flag_of(given: str) -> str:
    """`--max_num_seqs=4` and `--speculative-config.method` as the flags they are."""
    if not given.startswith("-"):
        return given
    return given.partition("=")[0].partition(".")[0].replace("_", "-")
