"""The mutants of a module: its source with one small mistake each (pure).

Mistaken are: comparisons (turned round), arithmetic, numbers, truth values, `and`/`or`/`not`, what is returned (None
instead), calls for their effect (left out), and who may call an endpoint (the next lesser scope). Log calls,
assertions, annotations, texts and `dataclass`'s own arguments are left alone: nobody relies on them.
"""

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

TURNED = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitAnd,
}  # fmt: skip
LOGIC = {ast.And: ast.Or, ast.Or: ast.And}
LESSER = {"Admin": "Operator", "Operator": "Reader", "Reader": "Holder", "AgentAccess": "Reader", "Enroller": "Reader"}
LESSER |= {"ADMIN": "OPERATE", "OPERATE": "READ", "READ": "AGENT", "AGENT": "READ", "ENROL": "READ"}
UNTOLD = {"log", "_log", "logger", "_logger", "logging", "warnings"}
LONGEST = 100

Change = Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """One mistake. `name` says it without a line number, so that it is the same after the file has moved on."""

    line: int
    within: str
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        return f"{self.within}: `{self.before}` -> `{self.after}`"


def mutants(source: str, count: int, seed: str) -> list[Mutant]:
    """`count` of a module's mutants (all, where it has no more), drawn by `seed`, in the order of its lines."""
    places = range(len(list(_places(ast.parse(source)))))
    chosen = sorted(random.Random(seed).sample(places, min(count, len(places))))
    return [_mutant(source, place) for place in chosen]


def _mutant(source: str, place: int) -> Mutant:
    tree = ast.parse(source)
    node, shown, within, change = list(_places(tree))[place]
    before = _text(shown)
    change()
    return Mutant(node.lineno, within, before, _text(shown), ast.unparse(tree))


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _places(
    node: ast.AST, within: tuple[str, ...] = (), parent: ast.AST | None = None
) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST, str, Change]]:
    """Each place that can be mistaken: the node, what to show of it, the function it is in, and the mistake."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        within = (*within, node.name)
    if isinstance(node, ast.expr | ast.stmt) and (change := _change(node)) is not None:
        shown: ast.AST = parent if isinstance(node, ast.Constant | ast.Name) and isinstance(parent, ast.expr) else node
        if isinstance(node, ast.Constant) and isinstance(parent, ast.Assign | ast.AnnAssign | ast.keyword):
            shown = parent
        yield node, shown, ".".join(within) or "module", change
    for child in _children(node):
        yield from _places(child, within, node)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assert | ast.JoinedStr) or (isinstance(node, ast.Expr) and _is_untold(node.value)):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword) and child.arg == "strict":
            continue
        if isinstance(node, ast.ClassDef) and child in node.decorator_list:
            continue
        if child in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(child, ast.Name) and child.id in LESSER:
                yield child
            continue
        yield child


def _is_untold(call: ast.expr) -> bool:
    root = call
    while isinstance(root, ast.Call | ast.Attribute):
        root = root.func if isinstance(root, ast.Call) else root.value
    return isinstance(root, ast.Name) and root.id in UNTOLD


def _change(node: ast.expr | ast.stmt) -> Change | None:
    """The mistake that can be made at a node: it changes the node in place."""
    match node:
        case ast.Compare():
            return lambda: node.ops.__setitem__(0, TURNED[type(node.ops[0])]())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            return lambda: setattr(node, "op", ARITHMETIC[type(node.op)]())
        case ast.BoolOp():
            return lambda: setattr(node, "op", LOGIC[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            return lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.UnaryOp(op=ast.USub()):
            return lambda: setattr(node, "op", ast.UAdd())
        case ast.Constant(value=bool() | int() | float()):
            return lambda: setattr(node, "value", _other(node.value))
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            return lambda: setattr(node, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) if not _is_untold(node.value):
            return lambda: setattr(node, "value", ast.Constant(None))
        case ast.Name(id=name) if name in LESSER:
            return lambda: setattr(node, "id", LESSER[name])
        case ast.Attribute(value=ast.Name(id="Scope"), attr=name) if name in LESSER:
            return lambda: setattr(node, "attr", LESSER[name])
    return None


def _other(value: object) -> bool | int | float:
    """Another truth value, the next number, or twice what is less than one."""
    assert isinstance(value, bool | int | float)
    if isinstance(value, bool):
        return not value
    return value * 2 if 0 < abs(value) < 1 else value + 1
