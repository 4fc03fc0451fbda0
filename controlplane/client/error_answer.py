"""The service's error answers as the contract's errors."""

import httpx

from controlplane.contract import errors


def _error_classes() -> dict[str, type[errors.TrimtabError]]:
    found: dict[str, type[errors.TrimtabError]] = {}
    waiting: list[type[errors.TrimtabError]] = [errors.TrimtabError]
    while waiting:
        cls = waiting.pop()
        found[cls.code] = cls
        waiting.extend(cls.__subclasses__())
    return found


_BY_CODE = _error_classes()
_BY_STATUS = {cls.status: cls for cls in _BY_CODE.values() if cls.__bases__ == (errors.TrimtabError,)}


def raise_for_error(response: httpx.Response) -> None:
    """Raise the contract's error for a 4xx or 5xx answer."""
    if response.is_success:
        return
    try:
        error = response.json()["error"]
        code, message, detail = error["code"], error["message"], error.get("detail") or {}
    except (ValueError, KeyError, TypeError):
        code, message, detail = "", f"{response.status_code} from {response.request.url}: {response.text[:200]}", {}
    cls = _BY_CODE.get(code) or _BY_STATUS.get(response.status_code, errors.TrimtabError)
    if issubclass(cls, errors.Overloaded):
        raise cls(message, retry_after_s=float(response.headers.get("Retry-After", 1)))
    raise cls(message, **detail)
