"""The engine: one thread that steps, and what others may ask of it between steps.

Guarantees: nothing a caller does waits for a step, except where it asks for an answer (a `Future`); outputs of a step
go to each receiver in one call, in the step's order; every submitted request gets exactly one output with a finish
reason unless the engine is stopped, with an error when it is shed or its deadline passes before its first token; a
configuration is in force as a whole or not at all, the last one asked for wins, and a weight swap loses no request:
running ones finish on the old weights, waiting ones start on the new.
"""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

import torch

from agents.engine.core.effective_config import ReadBack, read_back, read_scheduling
from agents.engine.core.event_log import EventLog
from agents.engine.core.memory_report import refuse_unfit
from agents.engine.core.step import StepEngine, TokenOutput
from agents.engine.options import EngineOptions
from agents.engine.quantization.linear import check_permitted
from agents.engine.request.timing import monotonic
from agents.engine.scheduling.admission import NOBODY
from agents.engine.scheduling.request import FinishReason, Request
from agents.engine.scheduling.siblings import Siblings
from controlplane.contract.errors import BadRequest, Conflict, PromptTooLong, Unavailable
from controlplane.contract.knobs import QUANTIZATION, EngineConfig

Receiver = Callable[[Sequence[TokenOutput]], None]
"""Called in the engine's thread with the outputs of a step; must be quick and must not raise."""

_log = logging.getLogger(__name__)


class Engine:
    """Loads the model on construction; `start` begins serving, `stop` ends it."""

    def __init__(self, options: EngineOptions) -> None:
        torch.set_num_threads(options.threads)
        self.options = options
        self.log = EventLog()
        self.steps = StepEngine(options, self.log)
        self._receivers: dict[Request, Receiver] = {}  # The stepping thread's.
        self._siblings = Siblings()
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._coming = NOBODY
        self._stopping = False  # Asked to end.
        self._closed = False  # Takes nothing more in.
        self._pending: tuple[EngineConfig, int | None, Future[ReadBack]] | None = None
        self._effective = read_back(self.steps)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the step in progress; unfinished requests are aborted."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_serving(self) -> bool:
        return self._thread.is_alive() and not self._stopping and not self._closed

    @property
    def effective(self) -> ReadBack:
        """The configuration in force, as read back after the last change; limits that move by themselves, as of now."""
        return replace(self._effective, scheduling=read_scheduling(self.steps.scheduler))

    def deadline(self, timeout_s: float | None, arrived_at: float) -> float | None:
        """When a request that arrived then is to be ended, by its own timeout or the engine's; None: never."""
        timeout_s = self.options.default_timeout_s if timeout_s is None else timeout_s
        return None if timeout_s is None else arrived_at + timeout_s

    def check(self, prompt_tokens: int, max_tokens: int, *, priority: int = 0, deadline: float | None = None) -> None:
        """Raises what a request of this kind deserves: `PromptTooLong`, `BadRequest` (max_tokens, priority),
        `Overloaded` or `DeadlineUnmet`.
        """
        limit = self.steps.max_model_len
        if prompt_tokens > limit - 1:
            raise PromptTooLong(
                f"prompt: {prompt_tokens} tokens, but this model takes at most {limit - 1} and one of output",
                field="prompt",
                prompt_tokens=prompt_tokens,
                limit=limit - 1,
            )
        if prompt_tokens + max_tokens > limit:
            raise BadRequest(
                f"max_tokens: {max_tokens} with a prompt of {prompt_tokens} tokens passes the model's {limit}; "
                f"ask for at most {limit - prompt_tokens}",
                field="max_tokens",
                limit=limit - prompt_tokens,
            )
        if not self.steps.scheduler.fits(prompt_tokens + max_tokens):
            capacity = self.steps.scheduler.cache.most_tokens
            assert capacity is not None  # Without a limit every request fits.
            field = "prompt" if prompt_tokens >= capacity else "max_tokens"
            raise BadRequest(
                f"{field}: a prompt of {prompt_tokens} tokens and {max_tokens} of output can never fit the KV cache's "
                f"{capacity} tokens; start the engine with a larger kv_cache_memory_bytes",
                field=field,
                limit=capacity,
            )
        scheduler = self.steps.scheduler
        scheduler.policy.check_priority(priority)
        left_s = None if deadline is None else deadline - monotonic()
        scheduler.admission.check(prompt_tokens, priority, left_s, scheduler.load, self._coming)

    def submit(self, request: Request, receiver: Receiver, siblings: Sequence[Request] = ()) -> None:
        """Queue a request that passed `check`; its outputs go to `receiver`. Without a deadline it gets the default.

        siblings: further requests for the same prompt; they are queued when the first has it computed, or has ended.
        """
        tokens = len(request.tokens)
        now = monotonic()
        for own in (request, *siblings):
            own.arrived_at = now
            if own.deadline is None:
                own.deadline = self.deadline(None, now)

        def add() -> None:
            with self._wake:
                self._coming = self._coming.minus(tokens)
            self._siblings.hold(request, siblings)
            self._receivers |= dict.fromkeys((request, *siblings), receiver)
            self._deliver(self.steps.told(self.steps.scheduler.add(request)))

        with self._wake:
            self._post(add)
            self._coming = self._coming.plus(tokens, request.priority)

    def end(self, request: Request, reason: FinishReason) -> None:
        """End a request before its time: its blocks are free before the next step. No further output is delivered."""

        def finish() -> None:
            self._receivers.pop(request, None)
            if not self._siblings.forget(request, reason):
                self.steps.scheduler.finish(request, reason)
                self.steps.flush_gaps(request)
            self._queue_siblings(request)

        with contextlib.suppress(Unavailable):  # A stopped engine has ended every request itself.
            self._post(finish)

    def set_config(self, config: EngineConfig, revision: int | None = None) -> "Future[ReadBack]":
        """Put a full configuration in force; the future gives what then really runs.

        Live knobs count from the next step. Other weights wait until running requests have finished; then all knobs
        change together. revision None: the configuration was assigned by nobody, which is told as revision 0.
        A configuration that comes while another one drains replaces it: the earlier future raises `Conflict`, and
        nothing of that configuration is put in force. Raises `KnobOutOfRange` for weights this engine does not run,
        `Conflict` for what cannot fit its memory.
        """
        check_permitted(config.quantization, self.options.quantizations, f"knobs.{QUANTIZATION}")
        refuse_unfit(self._effective.memory, self._effective.config, config)
        future: Future[ReadBack] = Future()
        future.set_running_or_notify_cancel()  # From here on nobody can cancel it under the engine's hands.

        def begin() -> None:
            if self._pending is not None:
                by = "another one" if revision is None else f"revision {revision}"
                self._pending[2].set_exception(
                    Conflict(
                        f"superseded: {by} was assigned while this configuration waited for running requests to end; "
                        "nothing of it was put in force",
                        superseded_by=revision,
                    )
                )
            self._pending = (config, revision, future)
            self._advance_config()

        self._post(begin)
        return future

    def reset_cache(self) -> "Future[int]":
        """Forget all cached prefixes that nobody uses; the future gives the number of blocks."""
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        self._post(lambda: future.set_result(self.steps.pool.reset_cache()))
        return future

    def _post(self, command: Callable[[], None]) -> None:
        with self._wake:
            if self._closed:
                raise Unavailable("the engine is stopped")
            self._inbox.append(command)
            self._wake.notify()

    def _run(self) -> None:
        torch.set_num_threads(self.options.threads)
        try:
            with torch.inference_mode():
                self.steps.warm_up()
                self._serve()
        except Exception:  # noqa: BLE001 - logged; health tells it, and nobody waits for ever.
            _log.exception("the engine's thread failed; every request is aborted and new ones are refused")
        finally:
            with self._wake:
                self._closed = True
            self._take_commands()
            self._abort_all()

    def _serve(self) -> None:
        scheduler = self.steps.scheduler
        while True:
            with self._wake:
                while not (self._inbox or self._stopping or scheduler.has_work):
                    deadline = scheduler.next_deadline
                    if not self._wake.wait(None if deadline is None else max(0.0, deadline - monotonic())):
                        break  # Somebody's deadline has passed.
                if self._stopping:
                    return
            self._take_commands()
            self._deliver(self.steps.expire())
            if scheduler.has_work:
                self._step()
            if self._pending is not None:
                self._advance_config()

    def _take_commands(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    def _step(self) -> None:
        try:
            outputs = self.steps.step()
        except Exception as error:  # noqa: BLE001 - whatever it was, the others are served on.
            _log.exception("a step failed; its requests end with an error")
            outputs = self.steps.fail(f"the engine failed in a step: {error}")
        self._deliver(outputs)

    def _deliver(self, outputs: Sequence[TokenOutput]) -> None:
        """One call per receiver and step: a wake-up of an event loop costs more than the tokens it carries."""
        by_receiver: dict[Receiver, list[TokenOutput]] = {}
        for output in outputs:
            receiver = self._receivers.get(output.request)
            if receiver is None:
                continue
            by_receiver.setdefault(receiver, []).append(output)
            if output.finish_reason:
                del self._receivers[output.request]
        for receiver, own in by_receiver.items():
            receiver(own)
        for output in outputs:
            self._queue_siblings(output.request)

    def _queue_siblings(self, first: Request) -> None:
        for request in self._siblings.release(first):
            self._deliver(self.steps.told(self.steps.scheduler.add(request)))

    def _advance_config(self) -> None:
        """Put the pending configuration in force if it can be; else let the running requests drain."""
        assert self._pending is not None
        config, revision, future = self._pending
        steps = self.steps
        swap = config.quantization is not steps.runner.decoder.quantization()[0]
        if swap and not steps.scheduler.is_drained:
            if steps.scheduler.admitting:
                steps.scheduler.admitting = False
                self._effective = read_back(steps)
            return
        self._pending = None
        try:
            if swap:
                steps.swap_weights(config.quantization)
            steps.scheduler.config = config
            steps.revision = revision or 0
        except Exception as error:  # noqa: BLE001 - the asker is told; the old weights are still in place.
            _log.exception("the configuration was not put in force; the previous one stays")
            failure: Exception | None = error
        else:
            failure = None
        steps.scheduler.admitting = True
        self._effective = read_back(steps)
        if failure is None:
            future.set_result(self._effective)
        else:
            future.set_exception(failure)

    def _abort_all(self) -> None:
        scheduler = self.steps.scheduler
        left = [*scheduler.running, *scheduler.waiting]
        # The engine's doing, not the clients': those are lost requests.
        for request in left:
            scheduler.finish(request, FinishReason.ERROR)
        left += self._siblings.release_all()
        now, why = monotonic(), Unavailable("the engine was stopped before the answer was complete")
        self._deliver([TokenOutput(request, (), now, FinishReason.ERROR, why) for request in left])
        if self._pending is not None:
            self._pending[2].set_exception(Unavailable("the engine stopped before the configuration was in force"))
