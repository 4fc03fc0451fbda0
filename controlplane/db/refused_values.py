"""Values that a driver cannot even hand to its database become the error of those that the database refuses.

SQLite's driver knows no integer beyond 64 bits, and neither driver writes text that has no UTF-8 form. Both raise
errors of Python, which nothing above would take for a wrong value.
"""

from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DataError


def as_data_error(context: ExceptionContext) -> None:
    """A listener of `handle_error`. Raises `DataError` for such a value; every other error stays as it is."""
    error = context.original_exception
    if isinstance(error, OverflowError | UnicodeEncodeError):
        raise DataError(context.statement, context.parameters, error) from error
