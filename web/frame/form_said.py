"""Forms whose fields depend on what they make: all that one says, as far as it may."""

from collections.abc import Awaitable, Callable

from fastapi import Request


def form_of(most_fields: int) -> Callable[[Request], Awaitable[dict[str, str]]]:
    """A dependency that reads the form's text; one of more fields, or with a file, is refused."""

    async def said(request: Request) -> dict[str, str]:
        async with request.form(max_fields=most_fields, max_files=0) as form:
            return {name: value for name, value in form.items() if isinstance(value, str)}

    return said
