"""Which of the contract's errors a function's own code can raise, found by walking through what it calls.

What is followed: plain functions, functions of modules, classes, and methods of the classes that annotations name. What
a value of an unknown class does is not seen; requests of the schema check look at that.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from controlplane.contract.errors import TailwrightError

OURS = "controlplane."


def raised_by(call: Callable[..., Any]) -> set[type[TailwrightError]]:
    """Classes of errors in `raise` statements of the function and of all that it calls."""
    seen: set[Callable[..., Any]] = set()
    waiting, found = [call], set()
    while waiting:
        function = inspect.unwrap(waiting.pop())
        if function in seen or not isinstance(function, FunctionType) or not function.__module__.startswith(OURS):
            continue
        if function.__code__.co_filename.startswith("<"):
            continue  # Made by a dataclass.
        seen.add(function)
        raised, called = _read(function)
        found |= raised
        waiting += called
    return found


@cache
def _read(function: FunctionType) -> tuple[frozenset[type[TailwrightError]], tuple[Callable[..., Any], ...]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    caught = {id(inner) for node in ast.walk(tree) for inner in _inside_translations(node, function)}
    raised, called = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and id(node) not in caught and isinstance(node.exc, ast.Call):
            cls = _value(node.exc.func, function)
            if isinstance(cls, type) and issubclass(cls, TailwrightError):
                raised.add(cls)
        elif isinstance(node, ast.Call) and id(node) not in caught:
            called += _functions(_value(node.func, function))
    return frozenset(raised), tuple(called)


def _inside_translations(node: ast.AST, function: FunctionType) -> Iterator[ast.AST]:
    """What stands in a `try` whose handlers catch every error of ours: it never leaves as it is."""
    if isinstance(node, ast.Try):
        caught = [_value(handler.type, function) for handler in node.handlers if handler.type is not None]
        if TailwrightError in caught:
            for statement in node.body:
                yield from ast.walk(statement)


def _functions(value: Any) -> list[Callable[..., Any]]:
    if isinstance(value, FunctionType):
        return [value]
    if isinstance(value, type) and value.__module__.startswith(OURS):
        return [
            made for made in (value.__init__, getattr(value, "__post_init__", None)) if isinstance(made, FunctionType)
        ]
    return []


def _value(node: ast.expr | None, function: FunctionType) -> Any:
    """What a name, or a name of a module, stands for; None where that is not known before it runs."""
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute):
        of = _value(node.value, function)
        return getattr(of, node.attr, None) if isinstance(of, ModuleType | type) else None
    return None
