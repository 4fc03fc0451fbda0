"""The service's error answers as the contract's errors."""

import httpx

from controlplane.contract import errors
from controlplane.contract.clock import utc_now
from controlplane.contract.error_answer import ErrorAnswer, ErrorBody
from controlplane.contract.retry import retry_after_s

RETRY_AFTER_S = 1.0
"""Where a 429 does not say when to come back, or in a way that nobody understands."""


def _error_classes() -> dict[str, type[errors.TailwrightError]]:
    found: dict[str, type[errors.TailwrightError]] = {}
    waiting: list[type[errors.TailwrightError]] = [errors.TailwrightError]
    while waiting:
        cls = waiting.pop()
        found[cls.code] = cls
        waiting.extend(cls.__subclasses__())
    return found


_BY_CODE = _error_classes()
_BY_STATUS = {cls.status: cls for cls in _BY_CODE.values() if cls.__bases__ == (errors.TailwrightError,)}


def raise_for_error(response: httpx.Response) -> None:
    """Raise the contract's error for a 4xx or 5xx answer, whoever has written it: the service, or a proxy before it."""
    if response.is_success:
        return
    try:
        answer = ErrorAnswer.model_validate_json(response.content).error
    except ValueError:
        shown = f"{response.status_code} from {response.request.url}: {response.text[:200]}"
        answer = ErrorBody(code="", message=shown)
    cls = _BY_CODE.get(answer.code) or _BY_STATUS.get(response.status_code, errors.TailwrightError)
    if issubclass(cls, errors.Overloaded):
        wait_s = retry_after_s(response.headers.get("Retry-After"), utc_now())
        error: errors.TailwrightError = cls(answer.message, retry_after_s=RETRY_AFTER_S if wait_s is None else wait_s)
    else:
        error = cls(answer.message)
    error.detail = answer.detail | error.detail
    raise error
