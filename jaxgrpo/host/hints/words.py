"""Expressions of Python in words, as a plan may speak of them."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_CONSTANT = 30
"""Characters of a constant that is spelled out."""
DEPTH = 4
"""Expressions inside one another that are put in words; deeper ones are summed up."""

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "is equal to", ast.NotEq: "differs from",
    ast.Lt: "is less than", ast.LtE: "is at most",
    ast.Gt: "is more than", ast.GtE: "is at least",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "is in", ast.NotIn: "is not in",
}  # fmt: skip
_OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times", ast.MatMult: "matrix-times",
    ast.Div: "divided by", ast.FloorDiv: "floor-divided by", ast.Mod: "modulo",
    ast.Pow: "to the power of", ast.BitAnd: "bitwise and", ast.BitOr: "bitwise or",
    ast.BitXor: "bitwise xor", ast.LShift: "shifted left by",
    ast.RShift: "shifted right by",
}  # fmt: skip
_COMPREHENSIONS: dict[type[ast.expr], str] = {
    ast.ListComp: "a list", ast.SetComp: "a set", ast.GeneratorExp: "all",
}  # fmt: skip
_DISPLAYS: dict[type[ast.expr], str] = {
    ast.List: "list", ast.Tuple: "tuple", ast.Set: "set",
}  # fmt: skip
_COMPOUND = (ast.BinOp, ast.BoolOp, ast.IfExp, ast.Compare)
LONGEST_DISPLAY = 4
"""Items of a list that are told one by one."""


def listed(items: Sequence[str], joint: str = "and") -> str:
    """Returns items as a sentence lists them.

    Args:
      items: At least one.
      joint: Before the last.

    Example:
      >>> listed(["a", "b", "c"]), listed(["a"])
      ('a, b and c', 'a')
    """
    *first, last = items
    return f"{', '.join(first)} {joint} {last}" if first else last


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Puts expressions of one program in words.

    Example:
      >>> tell = Words(modules=frozenset({"math"}))
      >>> tell(ast.parse("math.gcd(a, b[-1]) % 2 == 0", mode="eval").body)
      '((`math.gcd` of `a` and the last item of `b`) modulo 2) is equal to 0'
    """

    modules: frozenset[str] = frozenset()
    """Names that stand for what is imported."""

    def __call__(self, node: ast.expr, depth: int = DEPTH) -> str:
        """The expression in words.

        Args:
          node: Any expression.
          depth: Of expressions inside one another that are still told.
        """
        match node:
            case ast.Name(id=name):
                return f"`{name}`"
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Starred(value=value) | ast.Await(value=value):
                return self(value, depth)
            case ast.JoinedStr():
                return "a formatted text"
        if depth == 0:
            return _summed_up(node)
        return self._compound(node, depth - 1)

    def target(self, node: ast.expr) -> str:
        """What is assigned to: the names of a tuple one after the other.

        Args:
          node: A name, an item, or a tuple of these.
        """
        if isinstance(node, ast.Tuple | ast.List) and node.elts:
            return listed([self.target(item) for item in node.elts])
        return self(node)

    def _compound(self, node: ast.expr, depth: int) -> str:
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                name = _OPERATIONS[type(op)]
                return f"{self._inner(left, depth)} {name} {self._inner(right, depth)}"
            case ast.BoolOp(op=op, values=values):
                joint = "and" if isinstance(op, ast.And) else "or"
                return f" {joint} ".join(self._inner(v, depth) for v in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"not {self._inner(operand, depth)}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"minus {self._inner(operand, depth)}"
            case ast.UnaryOp(operand=operand):
                return f"the bits of {self._inner(operand, depth)}"
            case ast.Compare(left=left, ops=ops, comparators=others):
                told = [
                    f"{_COMPARISONS[type(op)]} {self._inner(other, depth)}"
                    for op, other in zip(ops, others, strict=True)
                ]
                return f"{self._inner(left, depth)} {', which '.join(told)}"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return (
                    f"{self(body, depth)} if {self(test, depth)}, else "
                    f"{self(orelse, depth)}"
                )
            case ast.Call():
                return self._call(node, depth)
            case ast.Subscript(value=value, slice=place):
                return self._item(value, place, depth)
            case ast.Attribute(value=value, attr=name):
                if self._is_module(value):
                    return f"`{ast.unparse(node)}`"
                return f"`{name}` of {self._inner(value, depth)}"
            case ast.Lambda(args=arguments):
                names = [f"`{a.arg}`" for a in arguments.posonlyargs + arguments.args]
                return f"a function of {listed(names)}" if names else "a function"
            case ast.NamedExpr(target=target, value=value):
                return f"{self(value, depth)} (kept as {self(target, depth)})"
        return self._collection(node, depth)

    def _collection(self, node: ast.expr, depth: int) -> str:
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                name = _DISPLAYS[type(node)]
                if not items:
                    return f"an empty {name}"
                if len(items) > LONGEST_DISPLAY:
                    return f"a {name} of {len(items)} items"
                told = listed([self._inner(item, depth) for item in items])
                return f"a {name} of {told}"
            case ast.Dict(keys=keys):
                return f"a dict of {len(keys)} entries" if keys else "an empty dict"
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                told = (
                    f"{_COMPREHENSIONS[type(node)]} of {self._inner(node.elt, depth)}"
                )
                return f"{told} {self._generators(node.generators, depth)}"
            case ast.DictComp(key=key, value=value, generators=generators):
                told = f"{self._inner(key, depth)} with {self._inner(value, depth)}"
                return f"a dict of {told} {self._generators(generators, depth)}"
            case ast.Yield(value=value) if value is not None:
                return self(value, depth)
        return _summed_up(node)

    def _inner(self, node: ast.expr, depth: int) -> str:
        """The same as part of a longer one: told apart by brackets."""
        told = self(node, depth)
        is_call = isinstance(node, ast.Call) and (node.args or node.keywords)
        is_long = isinstance(node, _COMPOUND) or is_call
        return f"({told})" if is_long and depth > 0 else told

    def _call(self, node: ast.Call, depth: int) -> str:
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        given = (
            listed([self._inner(value, depth) for value in values]) if values else ""
        )
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Attribute) and not self._is_module(owner):
            assert owner is not None
            told = f"`{node.func.attr}` of {self._inner(owner, depth)}"
            return f"{told} with {given}" if given else told
        name = ast.unparse(node.func)
        if not all(part.isidentifier() for part in name.split(".")):
            return _summed_up(node)
        return f"`{name}` of {given}" if given else f"the result of `{name}`"

    def _item(self, value: ast.expr, place: ast.expr, depth: int) -> str:
        owner = self._inner(value, depth)
        match place:
            case ast.Slice():
                return f"a part of {owner}"
            case ast.Constant(value=0):
                return f"the first item of {owner}"
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
                return f"the last item of {owner}"
        return f"the item of {owner} at {self._inner(place, depth)}"

    def _generators(self, found: Sequence[ast.comprehension], depth: int) -> str:
        told = []
        for one in found:
            text = (
                f"for each {self.target(one.target)} in {self._inner(one.iter, depth)}"
            )
            tests = [self._inner(test, depth) for test in one.ifs]
            told.append(f"{text} where {' and '.join(tests)}" if tests else text)
        return " ".join(told)

    def _is_module(self, node: ast.expr | None) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.modules


def _constant(value: object) -> str:
    told = repr(value)
    if len(told) <= LONGEST_CONSTANT:
        return told
    return "a long text" if isinstance(value, str | bytes) else "a large number"


def _summed_up(node: ast.expr) -> str:
    """What stands for an expression that is too deep to be told."""
    nodes = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    nodes.sort(key=lambda name: (name.lineno, name.col_offset))
    names = list(dict.fromkeys(f"`{name.id}`" for name in nodes))
    return f"a value made of {listed(names)}" if names else "a value"
