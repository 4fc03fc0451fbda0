"""The proxy's command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.backends.vllm.proxy.switchboard import Limits
from agents.backends.vllm.proxy.target import target_url
from controlplane.contract.errors import BadRequest
from controlplane.contract.host_names import ANY, names_of

BODY_LIMIT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Options:
    host: str
    port: int
    control: Path
    target: str | None
    limits: Limits
    body_limit_bytes: int
    body_stall_s: float
    stop_limit_s: float
    parent_pid: int | None
    passed_paths: tuple[str, ...] = ()
    host_names: frozenset[str] = frozenset({ANY})
    tls_cert: Path | None = None
    tls_key: Path | None = None
    target_ca_file: Path | None = None
    insecure_http: bool = False


def parse(arguments: Sequence[str] | None) -> Options:
    """Ends the process with status 2 and a message on a wrong option, as argparse does."""
    parser = argparse.ArgumentParser(prog="python -m agents.backends.vllm.proxy", description=__doc__)
    add = parser.add_argument
    add("--host", required=True, help="address to listen on")
    add("--port", required=True, type=_port, help="port to listen on; 0 takes any, which GET /state tells")
    add("--control", required=True, type=Path, metavar="SOCKET", help="path of the control socket")
    add("--target", type=_target, metavar="URL", help="the server that gets requests; without: they wait for one")
    add("--hold-s", type=_positive, default=Limits.hold_s, help="longest time a request waits (default %(default)g)")
    add("--body-limit-bytes", type=_whole, default=BODY_LIMIT_BYTES, help="largest request body (default %(default)d)")
    add("--body-stall-s", type=_positive, default=60.0, help="longest pause within a body (default %(default)g)")
    add("--waiting-limit", type=_whole, default=Limits.waiting, help="most requests that wait (default %(default)d)")
    add("--waiting-limit-bytes", type=_whole, default=Limits.waiting_bytes, help="of bodies (default %(default)d)")
    add("--stop-limit-s", type=_positive, default=30.0, help="longest wait for requests on SIGTERM (%(default)g)")
    add("--pass-paths", default="", metavar="PATH,...", help="further paths that clients may ask for")
    add("--allowed-hosts", default="", metavar="NAME,...", help="further names that clients may call it by")
    add("--tls-cert", type=Path, metavar="FILE", help="PEM file of the certificate; renewed when it changes")
    add("--tls-key", type=Path, metavar="FILE", help="PEM file of its key")
    add("--target-ca-file", type=Path, metavar="FILE", help="PEM file of whom alone to trust behind https:// targets")
    add("--insecure-http", action="store_true", help="serve other machines in clear: something before this encrypts")
    add("--end-with-parent", type=int, metavar="PID", help="end when the process PID, which starts this one, does")
    told = parser.parse_args(arguments)
    return Options(
        host=told.host,
        port=told.port,
        control=told.control.absolute(),
        target=told.target,
        limits=Limits(told.hold_s, told.waiting_limit, told.waiting_limit_bytes),
        body_limit_bytes=told.body_limit_bytes,
        body_stall_s=told.body_stall_s,
        stop_limit_s=told.stop_limit_s,
        parent_pid=told.end_with_parent,
        passed_paths=_several(told.pass_paths),
        host_names=names_of(told.host, _several(told.allowed_hosts)),
        tls_cert=told.tls_cert,
        tls_key=told.tls_key,
        target_ca_file=told.target_ca_file,
        insecure_http=told.insecure_http,
    )


def _target(text: str) -> str:
    try:
        return target_url(text)
    except BadRequest as error:
        raise argparse.ArgumentTypeError(error.message) from error


def _several(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"a port from 0 to 65535 is wanted, got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds above 0 is wanted, got {text!r}")
    return value


def _whole(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"a whole number above 0 is wanted, got {text!r}")
    return int(text)
