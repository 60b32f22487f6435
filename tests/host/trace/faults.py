"""Small programs, and what becomes of them by one fault or by a change without effect.

Each has a function `f` and inputs; a fault changes an operator or a constant.
"""

import ast
import copy
import random
from collections.abc import Iterator

PROGRAMS: dict[str, tuple[str, list[tuple]]] = {
    "longest_increasing": (
        """
def f(nums):
    best = [1] * len(nums)
    for i in range(1, len(nums)):
        for j in range(i):
            if nums[i] > nums[j]:
                best[i] = max(best[i], best[j] + 1)
    return max(best)
""",
        [([1, 3, 3, 5],), ([2, 2, 1, 4, 3],)],
    ),
    "greatest_divisor": (
        """
def f(a, b):
    while b != 0:
        a, b = b, a % b
    return a
""",
        [(12, 18), (7, 3)],
    ),
    "is_prime": (
        """
def f(n):
    if n < 2:
        return False
    i = 2
    while i * i <= n:
        if n % i == 0:
            return False
        i += 1
    return True
""",
        [(9,), (25,), (13,), (2,), (1,)],
    ),
    "binary_search": (
        """
def f(items, wanted):
    low = 0
    high = len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        if items[middle] == wanted:
            return middle
        if items[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1
""",
        [([1, 3, 5, 7, 9], 7), ([1, 3, 5, 7, 9], 1), ([1, 3], 2)],
    ),
    "count_words": (
        """
def f(text):
    counts = {}
    for word in text.split():
        key = word.lower()
        counts[key] = counts.get(key, 0) + 1
    top = 0
    for key in counts:
        if counts[key] > top:
            top = counts[key]
    return top
""",
        [("a b A c a",), ("x y",)],
    ),
    "fibonacci": (
        """
def f(n):
    if n < 2:
        return n
    return f(n - 1) + f(n - 2)
""",
        [(5,), (2,)],
    ),
    "helpers": (
        """
def digits(n):
    total = 0
    while n > 0:
        total += n % 10
        n //= 10
    return total

def f(limit):
    found = []
    for n in range(limit):
        if digits(n) % 3 == 1:
            found.append(n * 2)
    return found
""",
        [(15,), (4,)],
    ),
    "brackets": (
        """
def f(text):
    depth = 0
    deepest = 0
    for c in text:
        if c == "(":
            depth += 1
            if depth > deepest:
                deepest = depth
        elif c == ")":
            depth -= 1
            if depth < 0:
                return -1
    return deepest if depth == 0 else -1
""",
        [("(()())",), ("())",), ("((",)],
    ),
    "matrix": (
        """
def f(rows):
    total = 0
    for i in range(len(rows)):
        for j in range(len(rows[i])):
            if i == j or i + j == len(rows) - 1:
                total += rows[i][j]
    return total
""",
        [([[1, 2], [3, 4]],), ([[1, 2, 3], [4, 5, 6], [7, 8, 9]],)],
    ),
    "class": (
        """
class Account:
    def __init__(self, start):
        self.balance = start
        self.moves = 0

    def move(self, amount):
        if self.balance + amount < 0:
            return False
        self.balance += amount
        self.moves += 1
        return True

def f(amounts):
    account = Account(10)
    for amount in amounts:
        account.move(amount)
    return account.balance * 100 + account.moves
""",
        [([5, -20, -15, 1],), ([],)],
    ),
}

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATIONS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}


def faulty(source: str, generator: random.Random) -> Iterator[tuple[str, int]]:
    """The program with one fault each, and the line of the fault."""
    tree = ast.parse(source)
    plain = ast.unparse(tree).splitlines()
    for index, node in enumerate(ast.walk(tree)):
        if not _has_fault(node):
            continue
        changed = copy.deepcopy(tree)
        _make_fault(list(ast.walk(changed))[index], generator)
        lines = ast.unparse(changed).splitlines()
        pairs = enumerate(zip(plain, lines, strict=True), start=1)
        (line,) = [number for number, (one, other) in pairs if one != other]
        yield "\n".join(lines), line


def _has_fault(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[op]):
            return type(op) in COMPARISONS
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            return type(op) in OPERATIONS
        case ast.Constant(value=value):
            return type(value) is int
        case ast.BoolOp():
            return True
    return False


def _make_fault(node: ast.AST, generator: random.Random) -> None:
    match node:
        case ast.Compare(ops=[op]):
            node.ops = [COMPARISONS[type(op)]()]
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            node.op = OPERATIONS[type(op)]()
        case ast.Constant(value=int(value)):
            node.value = value + generator.choice([-1, 1])
        case ast.BoolOp(op=ast.Or()):
            node.op = ast.And()
        case ast.BoolOp():
            node.op = ast.Or()


def renamed(source: str, generator: random.Random) -> str:
    """The program with the names of local variables changed among themselves."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        names = {argument.arg for argument in function.args.args}
        names |= {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        shuffled = sorted(names)
        generator.shuffle(shuffled)
        table = dict(zip(sorted(names), shuffled, strict=True))
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                node.id = table.get(node.id, node.id)
            elif isinstance(node, ast.arg):
                node.arg = table.get(node.arg, node.arg)
    return ast.unparse(tree)
