"""The beginning of a program, longer and longer, never to its end."""

import ast

from jaxgrpo.host.hints.layout import ITEMS
from jaxgrpo.host.judge.passages import LINE


def solution(source: str, tree: ast.Module) -> list[str]:
    r"""Returns the parts of a program's beginning, at most four, of whole lines.

    Together the first l parts are about l quarters of it; all four are all but its last
    eighth, and at least its last statement. What only calls the program at its end
    does not count.

    Args:
      source: The program.
      tree: Of it.

    Example:
      >>> source = "def f(x):\n    y = x + 1\n    y *= 2\n    return y\n"
      >>> solution(source, ast.parse(source))
      ['def f(x):', '    y = x + 1', '    y *= 2']
    """
    body = _without_start(tree)
    if not body:
        return []
    lines = [line.rstrip("\r\n") for line in LINE.findall(source)]
    total = min(_end(body[-1]), len(lines))
    most = min(_first_line(_last_statement(body)) - 1, total - total // 8)
    cuts = [0]
    for cut in (*(min(most, total * q // ITEMS) for q in range(1, ITEMS)), most):
        while cut > cuts[-1] and not lines[cut - 1].strip():
            cut -= 1
        if cut > cuts[-1]:
            cuts.append(cut)
    return ["\n".join(lines[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]


def _without_start(tree: ast.Module) -> list[ast.stmt]:
    """The statements, but for those at the end that only set the others to work."""
    own = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    body = list(tree.body)
    while len(body) > 1 and _is_start(body[-1], own):
        body.pop()
    return body


def _is_start(node: ast.stmt, own: set[str]) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name in own
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=args)):
            return any(
                isinstance(n, ast.Call) and getattr(n.func, "id", "") in own
                for n in args
            )
    return False


def _last_statement(body: list[ast.stmt]) -> ast.stmt:
    """The innermost statement that ends last."""
    last = body[-1]
    while True:
        inner = [n for n in ast.walk(last) if isinstance(n, ast.stmt) and n is not last]
        if not inner:
            return last
        last = max(inner, key=lambda node: (_end(node), node.lineno, node.col_offset))


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
