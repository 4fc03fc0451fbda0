#!/usr/bin/env python3
"""A stand-in for `vllm serve`, for tests of process handling and protocols. Standard library only, starts in no time.

    stand_in.py serve MODEL --port P [--host H] [--served-model-name N] [--max-num-batched-tokens N] [--max-num-seqs N]
        [--speculative-config JSON] [--quantization Q] [--scheduler-cls tailwright_vllm.scheduler.live_scheduler]
        [--max-num-queued-reqs N] [--max-num-queued-tokens N] [--ssl-certfile PEM --ssl-keyfile PEM] ...

Any other flag is taken too. It answers GET /health, /metrics, /v1/models, POST /v1/completions (streamed or whole, a
token a step), GET /server_info and POST /reset_prefix_cache where VLLM_SERVER_DEV_MODE=1, as vLLM does; GET
/arguments always: {"flags", "env", "pid"}. Where TAILWRIGHT_VLLM_DIR is set the real plugin runs in it: the stat
logger always, the scheduler where --scheduler-cls names it. SIGTERM ends it with status 0. These variables make it
misbehave:

    STAND_IN_FAIL           this text goes to the log, then exit status 1
    STAND_IN_FAIL_WHEN      "quantization=fp8": fails so, with a message of that flag, when it was started with it
    STAND_IN_START_S        seconds until it listens (default 0)
    STAND_IN_HANG           never listens, lives on
    STAND_IN_SICK           listens, but /health answers 503
    STAND_IN_DIE_AFTER_S    exit status 9 after so many seconds of serving
    STAND_IN_DIE_AFTER_REQUESTS   exit status 9 when so many completions have begun
    STAND_IN_IGNORE_SIGTERM lives on after SIGTERM
    STAND_IN_STEP_S         seconds a step (default 0.003)
    STAND_IN_MEMORY         a JSON object, what the plugin has found of vLLM's memory
    STAND_IN_NO_PLUGIN      no stat logger, as where the plugin is not installed
    STAND_IN_QUEUES         it has queue limits, as vLLM 0.32 does: above them 503; else it is a release without
"""

import importlib
import json
import logging
import os
import queue
import signal
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[3] / "agents" / "vllm_plugin")]

import toy_vllm  # noqa: E402
from toy_metrics import ToyMetrics  # noqa: E402
from toy_vllm import (  # noqa: E402
    EngineCoreOutput,
    IterationStats,
    PrefillStats,
    PrefixCacheStats,
    RequestStateStats,
    SchedulerStats,
    SpecDecodingStats,
    ToyRequest,
)

FLAGS = {"host": "127.0.0.1", "port": "8000", "max-num-batched-tokens": "2048", "max-num-seqs": "128"}
KV_TOKENS = 100_000
QUEUE_LIMITS = ("max_num_queued_reqs", "max_num_queued_tokens")


def flags_of(arguments: list[str]) -> dict[str, str]:
    """{"port": "8000", ...} of `--port 8000`, `--port=8000` and bare `--switch` ("true")."""
    found = dict(FLAGS)
    place = 0
    while place < len(arguments):
        name, equals, value = arguments[place].removeprefix("--").partition("=")
        if not equals:
            following = arguments[place + 1] if place + 1 < len(arguments) else "--"
            value = "true" if following.startswith("--") else following
            place += value is following
        found[name] = value
        place += 1
    return found


def config_of(model: str, flags: dict[str, str]) -> SimpleNamespace:
    """What stands for vLLM's VllmConfig."""
    speculative = json.loads(flags["speculative-config"]) if "speculative-config" in flags else None
    tokens = int(flags["max-num-batched-tokens"])
    queues = {name: int(flags[flag]) if (flag := name.replace("_", "-")) in flags else None for name in QUEUE_LIMITS}
    return SimpleNamespace(
        model_config=SimpleNamespace(
            model=model,
            served_model_name=flags.get("served-model-name", model),
            quantization=flags.get("quantization"),
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=tokens,
            max_num_scheduled_tokens=int(flags.get("max-num-scheduled-tokens", tokens)),
            max_num_seqs=int(flags["max-num-seqs"]),
            max_num_active_seqs=int(flags["max-num-active-seqs"]) if "max-num-active-seqs" in flags else None,
            long_prefill_token_threshold=int(flags.get("long-prefill-token-threshold", 0)),
            async_scheduling=False,
            scheduler_cls=flags.get("scheduler-cls"),
            **(queues if os.environ.get("STAND_IN_QUEUES") else {}),
        ),
        speculative_config=SimpleNamespace(**speculative) if speculative else None,
        num_speculative_tokens=int(speculative["num_speculative_tokens"]) if speculative else 0,
    )


class Engine:
    """Steps in a thread of its own; hands tokens to the requests' queues and statistics to the logger and /metrics."""

    def __init__(self, config: SimpleNamespace) -> None:
        self.config = config
        self.metrics = ToyMetrics(config.model_config.served_model_name)
        self.server = toy_vllm.AsyncLLM(config) if os.environ.get("STAND_IN_QUEUES") else None
        self._admitting = threading.Lock()
        name = config.scheduler_config.scheduler_cls or "toy_vllm.Scheduler"
        module, _, attribute = name.rpartition(".")
        self.scheduler = getattr(importlib.import_module(module), attribute)(vllm_config=config)
        self.logger = None
        if not os.environ.get("STAND_IN_NO_PLUGIN"):
            from tailwright_vllm.stat_logger import TailwrightStatLogger

            self.logger = TailwrightStatLogger(config)
            self.logger.log_engine_initialized()
        self._step_s = float(os.environ.get("STAND_IN_STEP_S", "0.003"))
        self._changed = threading.Condition()
        self._new: list[ToyRequest] = []
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def admit(self) -> bool:
        """Whether the queue limits let one more in, who then counts until `left`."""
        if self.server is None:
            return True
        with self._admitting:
            try:
                self.server.check_admission()
            except toy_vllm.QueueOverflow:
                self.metrics.count("admission_rejections", 1)
                return False
            self.server.in_flight += 1
            return True

    def left(self) -> None:
        if self.server is not None:
            with self._admitting:
                self.server.in_flight -= 1

    def add(self, request_id: str, prompt_tokens: int, max_tokens: int) -> tuple[ToyRequest, "queue.Queue[Any]"]:
        out: queue.Queue[Any] = queue.Queue()
        request = ToyRequest(request_id, prompt_tokens, max_tokens, RequestStateStats(time.time()), out.put)
        with self._changed:
            self._new.append(request)
            self._changed.notify()
        return request, out

    def _run(self) -> None:
        scheduler = self.scheduler
        while True:
            with self._changed:
                while not (self._new or scheduler.running or scheduler.waiting):
                    self._changed.wait()
                for request in self._new:
                    request.stats.queued_ts = time.monotonic()
                scheduler.waiting += self._new
                queried = sum(request.prompt_tokens for request in self._new)
                self._new = []
            work = scheduler.schedule()
            time.sleep(self._step_s)
            self._finish_step(work, queried)

    def _finish_step(self, work: list[tuple[ToyRequest, int, int]], queried: int) -> None:
        scheduler, metrics = self.scheduler, self.metrics
        drafts = scheduler.draft_length()
        iteration, now = IterationStats(), time.monotonic()
        drafted = accepted = 0
        for request, prompt_tokens, tokens in work:
            stats = request.stats
            metrics.count("prompt_tokens", prompt_tokens)
            if not tokens and not request.aborted:
                continue
            first = stats.num_generation_tokens == 0
            tokens = min(tokens, request.max_tokens - stats.num_generation_tokens)
            if not first and drafts:
                drafted, accepted = drafted + drafts, accepted + drafts // 2
            output = EngineCoreOutput([0] * tokens, PrefillStats(request.prompt_tokens) if first else None)
            iteration.update_from_output(output, now, first, stats, None, None)
            metrics.count("generation_tokens", tokens)
            reason = None
            if request.aborted:
                reason = "abort"
            elif stats.num_generation_tokens >= request.max_tokens:
                reason = "length"
            if reason:
                scheduler.running.remove(request)
                iteration.update_from_finished_request(
                    reason, request.request_id, request.prompt_tokens, request.max_tokens, stats, 0
                )
                metrics.finish(reason)
            request.emit((tokens, reason))
        usage = sum(request.computed for request in scheduler.running) / KV_TOKENS
        seen = SchedulerStats(
            num_running_reqs=len(scheduler.running),
            num_waiting_reqs=len(scheduler.waiting),
            kv_cache_usage=usage,
            prefix_cache_stats=PrefixCacheStats(queries=queried),
        )
        if drafted:
            per_position = [accepted // (drafts // 2) if place < drafts // 2 else 0 for place in range(drafts)]
            seen.spec_decoding_stats = SpecDecodingStats(drafts, drafted // drafts, drafted, accepted, per_position)
            metrics.count("spec_decode_num_drafts", drafted // drafts)
            metrics.count("spec_decode_num_draft_tokens", drafted)
            metrics.count("spec_decode_num_accepted_tokens", accepted)
        self._tell(iteration, seen)
        if self.logger is not None:
            self.logger.record(seen, iteration)

    def _tell(self, iteration: IterationStats, seen: SchedulerStats) -> None:
        metrics = self.metrics
        metrics.gauges["num_requests_running"] = float(seen.num_running_reqs)
        metrics.gauges["num_requests_waiting"] = float(seen.num_waiting_reqs)
        metrics.gauges["kv_cache_usage_perc"] = seen.kv_cache_usage
        metrics.count("prefix_cache_queries", seen.prefix_cache_stats.queries)
        for value in iteration.time_to_first_tokens_iter:
            metrics.observe("time_to_first_token_seconds", value)
        for value in iteration.inter_token_latencies_iter:
            metrics.observe("inter_token_latency_seconds", value)
        for one in iteration.finished_requests:
            metrics.observe("e2e_request_latency_seconds", one.e2e_latency)
            metrics.observe("request_queue_time_seconds", one.queued_time)
            metrics.observe("request_prefill_time_seconds", one.prefill_time)
            metrics.observe("request_decode_time_seconds", one.decode_time)
            metrics.observe("request_inference_time_seconds", one.inference_time)
            metrics.observe("request_time_per_output_token_seconds", one.mean_time_per_output_token)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine
    arguments: dict[str, Any]
    begun = 0

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        config = self.engine.config
        name = config.model_config.served_model_name
        if path == "/health":
            self._answer(503 if os.environ.get("STAND_IN_SICK") else 200, b"")
        elif path == "/metrics":
            self._answer(200, self.engine.metrics.text().encode(), "text/plain; version=0.0.4")
        elif path == "/v1/models":
            self._json({"object": "list", "data": [{"id": name, "object": "model"}]})
        elif path == "/version":
            self._json({"version": "0.32.0"})
        elif path == "/arguments":
            self._json({**self.arguments, "env": dict(os.environ), "pid": os.getpid()})
        elif path == "/server_info" and os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            self._json({"vllm_config": json.loads(json.dumps(config, default=vars)), "vllm_env": {}, "system_env": {}})
        else:
            self._json({"detail": "Not Found"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/reset_prefix_cache" and os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            self._answer(200, b"")
            return
        if self.path != "/v1/completions":
            self._json({"detail": "Not Found"}, 404)
            return
        Handler.begun += 1
        number, limit = Handler.begun, os.environ.get("STAND_IN_DIE_AFTER_REQUESTS")
        if limit and number >= int(limit):
            log("the stand-in dies: it has begun its last request")
            os._exit(9)
        if not self.engine.admit():
            self._json({"error": {"message": "The engine is currently busy", "code": 503}}, 503)
            return
        try:
            self._complete(body, number)
        finally:
            self.engine.left()

    def _complete(self, body: dict[str, Any], number: int) -> None:
        prompt = body.get("prompt", "")
        prompt_tokens = len(prompt) if isinstance(prompt, list) else max(len(prompt.split()), 1)
        request, out = self.engine.add(f"cmpl-{number}", prompt_tokens, int(body.get("max_tokens", 16)))
        try:
            if body.get("stream"):
                self._stream(request, out, (body.get("stream_options") or {}).get("include_usage", False))
            else:
                self._whole(request, out)
        except OSError:
            request.aborted = True
            self.close_connection = True

    def _whole(self, request: ToyRequest, out: "queue.Queue[Any]") -> None:
        made, reason = 0, None
        while reason is None:
            tokens, reason = out.get()
            made += tokens
        usage = {"prompt_tokens": request.prompt_tokens, "completion_tokens": made}
        usage["total_tokens"] = sum(usage.values())
        self._json({**self._head(request), "choices": [_choice(0, made, reason)], "usage": usage})

    def _stream(self, request: ToyRequest, out: "queue.Queue[Any]", with_usage: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        made, reason = 0, None
        while reason is None:
            tokens, reason = out.get()
            self._chunk({**self._head(request), "choices": [_choice(made, tokens, reason)]})
            made += tokens
        if with_usage:
            self._chunk({**self._head(request), "choices": [], "usage": {"completion_tokens": made}})
        self._chunk("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, body: Any) -> None:
        line = b"data: " + (body if isinstance(body, str) else json.dumps(body)).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def _head(self, request: ToyRequest) -> dict[str, Any]:
        name = self.engine.config.model_config.served_model_name
        return {"id": request.request_id, "object": "text_completion", "created": int(time.time()), "model": name}

    def _json(self, body: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(body).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet: one line a request would drown the log."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


def _choice(first: int, tokens: int, reason: str | None) -> dict[str, Any]:
    text = "".join(f" w{number}" for number in range(first, first + tokens))
    return {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}


def log(text: str) -> None:
    print(f"{time.strftime('%m-%d %H:%M:%S')} [stand_in.py] {text}", file=sys.stderr, flush=True)


def fail_if_told(flags: dict[str, str]) -> None:
    given = os.environ
    name, _, value = given.get("STAND_IN_FAIL_WHEN", "").partition("=")
    message = given.get("STAND_IN_FAIL", "")
    if name and flags.get(name) == value:
        message = message or f"ValueError: --{name} {value} is not supported on this device"
    if message:
        log(f"ERROR {message}")
        sys.exit(1)


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] != "serve":
        sys.exit("usage: stand_in.py serve MODEL [flags]")
    model, flags = sys.argv[2], flags_of(sys.argv[3:])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    stubborn = bool(os.environ.get("STAND_IN_IGNORE_SIGTERM"))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda *_: os._exit(0))
    log(f"INFO starting {model} with {flags}")
    fail_if_told(flags)
    while os.environ.get("STAND_IN_HANG"):
        time.sleep(3600)
    time.sleep(float(os.environ.get("STAND_IN_START_S", "0")))
    toy_vllm.install()
    if told := os.environ.get("STAND_IN_MEMORY"):
        from tailwright_vllm.memory import engine_memory

        engine_memory._told.update(json.loads(told))
    Handler.engine = Engine(config_of(model, flags))
    Handler.arguments = {"model": model, "flags": flags}
    server = Server((flags["host"], int(flags["port"])), Handler)
    if "ssl-certfile" in flags:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(flags["ssl-certfile"], flags["ssl-keyfile"])
        # The handshake is each connection's own thread's: here it would hold up the others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    if limit_s := os.environ.get("STAND_IN_DIE_AFTER_S"):
        timer = threading.Timer(float(limit_s), lambda: os._exit(9))
        timer.daemon = True
        timer.start()
    log(f"INFO serving at http://{flags['host']}:{flags['port']}")
    server.serve_forever()


if __name__ == "__main__":
    main()
