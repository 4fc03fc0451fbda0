"""A number in a path that a row of the database may have: `{number:row}`."""

from starlette.convertors import Convertor, register_url_convertor


class RowNumber(Convertor[int]):
    """A number in a path that a row may have: Starlette's own `int` fails on one of thousands of digits."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


def register() -> None:
    """Have `{name:row}` in a path be one; again is the same."""
    register_url_convertor("row", RowNumber())
