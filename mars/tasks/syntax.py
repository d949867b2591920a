"""The syntax that generated Python may use: everything that is not on these lists is refused before anything runs."""

from __future__ import annotations

import ast
import re

MAX_SOURCE_CHARACTERS = 4_000

NODES: frozenset[type[ast.AST]] = frozenset(
    {
        *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Pass, ast.Expr, ast.Name, ast.Constant),
        *(ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Break, ast.Continue, ast.Load, ast.Store),
        *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.IfExp),
        *(ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        *(ast.comprehension, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.Invert),
        *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
        *(ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor),
        *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot),
    }
)
"""Left out on purpose: while, import, try, with, class, lambda, yield, async, global, nonlocal, del, f-strings."""

METHODS = frozenset(
    "append add capitalize clear copy count discard endswith extend find get index insert isalnum isalpha isdigit "
    "islower isspace isupper items join keys lower lstrip pop remove replace reverse rfind rsplit rstrip setdefault "
    "sort split splitlines startswith strip swapcase title update upper values zfill".split()
)
"""Methods of str, list, dict and set that may be called; `format` reads attributes and is left out."""

_CONSTANTS = (str, int, float, bool, type(None))
# The parser warns about these; refused, so that a verdict does not depend on how warnings are treated.
_WARNED = re.compile(r"""\\[^nt\\'"\n]|\b\d+(?:and|else|for|if|in|is|or|not)\b""")


def is_allowed(source: str, function: str) -> bool:
    """Whether `source` keeps to the lists above and defines `function` at its top level."""
    if len(source) > MAX_SOURCE_CHARACTERS or _WARNED.search(source):
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    defined = any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)
    return defined and all(_node_allowed(node) for node in ast.walk(tree))


def _node_allowed(node: ast.AST) -> bool:
    if type(node) not in NODES:
        return False
    match node:
        case ast.Attribute():
            return node.attr in METHODS and isinstance(node.ctx, ast.Load)
        case ast.Call():
            return isinstance(node.func, ast.Name | ast.Attribute)
        case ast.Constant():
            return isinstance(node.value, _CONSTANTS)
        case ast.FunctionDef():
            return "__" not in node.name and not node.decorator_list
        case ast.Name():
            return "__" not in node.id
        case ast.arg() | ast.keyword():
            return "__" not in (node.arg or "")
        case ast.comprehension():
            return not node.is_async
    return True
