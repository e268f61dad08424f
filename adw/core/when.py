"""`when`: a small expression over state fields and the outcomes of what the phase needs.

`and`, `or`, `not`, `==`, `!=`, `in`, `not in`, names, text, numbers, `null`, `true`, `false` and
lists of these; nothing can be called and nothing has parts. `check` refuses all else when a file
is loaded, so that `holds` cannot fail when the run is under way.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

FIELDS: Final = ("issue_class", "issue_number", "branch_name", "plan_file", "model_set")
OUTCOMES: Final = ("done", "skipped", "excused")
MAX_LENGTH: Final = 500

_CONSTANTS: Final[Mapping[str, Any]] = {"null": None, "true": True, "false": False}
_CLOSED: Final[Mapping[str, tuple[str, ...]]] = {
    "issue_class": ("chore", "bug", "feature"),
    "model_set": ("base", "heavy"),
}
_COMPARE: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


class BadExpression(ValueError):
    """An expression outside the language; the text is for people."""


def check(expr: str, needs: Sequence[str]) -> str | None:
    """What is wrong with an expression; None: nothing.

    Args:
        expr: As it stands in the workflow file.
        needs: The phases that the phase directly needs; only their outcomes are known.
    """
    try:
        tree = _parse(expr)
        for node in ast.walk(tree):
            _check_node(node, needs)
        for operand in _operands(tree):
            _check_operand(operand, needs)
    except BadExpression as fault:
        return str(fault)
    return None


def holds(expr: str, names: Mapping[str, object]) -> bool:
    """Whether a checked expression is true.

    Args:
        expr: The expression.
        names: The state fields (FIELDS), and `done`, `skipped` or `excused` by needed phase.

    Raises:
        BadExpression: It was never checked, or `names` lacks one.
    """
    import operator

    import simpleeval

    evaluator = simpleeval.EvalWithCompoundTypes(
        operators={
            ast.Eq: operator.eq,
            ast.NotEq: operator.ne,
            ast.In: lambda a, b: operator.contains(b, a),
            ast.NotIn: lambda a, b: not operator.contains(b, a),
            ast.Not: operator.not_,
            ast.USub: operator.neg,
        },
        functions={},
        names={**names, **_CONSTANTS},
    )
    evaluator.functions = {}  # the compound evaluator adds list, tuple, dict and set of its own
    tree = _parse(expr)
    try:
        return bool(evaluator.eval(expr, previously_parsed=tree))
    except (simpleeval.InvalidExpression, TypeError, KeyError) as error:
        raise BadExpression(str(error)) from error


@lru_cache(maxsize=1024)
def _parse(expr: str) -> ast.expr:
    """The tree of one expression.

    Raises:
        BadExpression: No single expression.
    """
    import warnings

    if len(expr) > MAX_LENGTH:
        message = f"an expression of {len(expr)} characters is longer than {MAX_LENGTH}"
        raise BadExpression(message)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(expr.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        message = "not an expression"
        raise BadExpression(message) from None


def _check_node(node: ast.AST, needs: Sequence[str]) -> None:
    if isinstance(node, ast.Name):
        _check_name(node.id, needs)
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | None):
            message = f"`{node.value!r}` is not allowed"
            raise BadExpression(message)
    elif isinstance(node, ast.Compare):
        _check_compare(node, needs)
    elif isinstance(node, ast.List | ast.Tuple):
        if not all(isinstance(item, ast.Constant) for item in node.elts):
            message = "a list may hold text and numbers only"
            raise BadExpression(message)
    elif not isinstance(node, _PLAIN):
        message = f"{_NOT_ALLOWED.get(type(node), 'this')} is not allowed"
        raise BadExpression(message)


def _check_name(name: str, needs: Sequence[str]) -> None:
    if name in _CONSTANTS:
        return
    if name in FIELDS and name in needs:
        message = f"`{name}` is a field of the state and a phase too; give the phase another name"
        raise BadExpression(message)
    if name not in FIELDS and name not in needs:
        known = ", ".join(f"`{n}`" for n in dict.fromkeys((*FIELDS, *needs)))
        message = f"unknown name `{name}`; known here: {known}"
        raise BadExpression(message)


def _check_compare(node: ast.Compare, needs: Sequence[str]) -> None:
    sides = [node.left, *node.comparators]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if not isinstance(op, _COMPARE):
            message = "only ==, !=, in and not in can compare"
            raise BadExpression(message)
        if isinstance(op, ast.In | ast.NotIn) and not isinstance(right, ast.List | ast.Tuple):
            message = '`in` needs a list on its right, such as ["bug", "chore"]'
            raise BadExpression(message)
        _check_values(left, right, needs)
        _check_values(right, left, needs)


def _check_values(name: ast.expr, value: ast.expr, needs: Sequence[str]) -> None:
    """Refuse a comparison with a value that the name can never have."""
    if not isinstance(name, ast.Name):
        return
    closed = _CLOSED.get(name.id) or (OUTCOMES if name.id in needs else None)
    if closed is None:
        return
    for item in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
        if not isinstance(item, ast.Constant) or (item.value is None and name.id in _CLOSED):
            continue
        if item.value not in closed:
            known = ", ".join(closed)
            message = f"`{name.id}` is never {ast.unparse(item)}; it is one of {known}"
            raise BadExpression(message)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The parts whose truth counts."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _operands(value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _operands(node.operand)
    else:
        yield node


def _check_operand(node: ast.expr, needs: Sequence[str]) -> None:
    if isinstance(node, ast.Name) and node.id in needs:
        message = f'`{node.id}` alone is always true; write {node.id} == "done"'
        raise BadExpression(message)
    constant = isinstance(node, ast.Constant | ast.List | ast.Tuple)
    if constant or (isinstance(node, ast.Name) and node.id in _CONSTANTS):
        message = "a value alone is always the same"
        raise BadExpression(message)


_PLAIN: Final = (
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Load, *_COMPARE,
)  # fmt: skip
_NOT_ALLOWED: Final[Mapping[type[ast.AST], str]] = {
    ast.Call: "a call",
    ast.Attribute: "an attribute",
    ast.Subscript: "an index",
    ast.BinOp: "arithmetic",
    ast.IfExp: "a conditional",
    ast.Lambda: "a function",
    ast.JoinedStr: "a formatted string",
}
