"""Asserts rewritten into calls: what can be decided without a second process.

    assert f([2, 1]) == [1, 2]          one call and a comparison
    assert sorted(f(3)) == g(4)         two calls, and the rest evaluated here
    for x, want in [(1, 2), (3, 4)]:    unrolled
        assert abs(f(x) - want) < 1e-6
    def check(candidate):               the form of HumanEval: its body
        assert candidate(1) is True

Everything but the program's functions has to be known beforehand, and a list that a
function is given may not be looked at afterwards, since the function might change it.
Where that does not hold, nothing is rewritten, and the test goes to a tester.
"""

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxgrpo.host.judge.assert_cases import case_of, drained_nodes
from jaxgrpo.host.judge.batches import Case
from jaxgrpo.host.judge.conditions import (
    MODULES,
    NotEvaluableError,
    Scope,
    check_evaluable,
    evaluate,
    evaluated_items,
)
from jaxgrpo.host.judge.operations import CONSTANTS, FUNCTIONS
from jaxgrpo.host.judge.source_names import (
    BUILTIN_NAMES,
    CHECK,
    LIBRARY_NAMES,
    SolutionNames,
)
from jaxgrpo.host.records import Call
from jaxgrpo.host.sandbox.calls import encoded_call

MAX_CASES = 2000
"""Asserts that one test may unroll to."""
MAX_DEPTH = 150
"""Of a test's syntax tree, since evaluation recurses over it."""
_LOOP_FUNCTIONS = {"zip": zip, "enumerate": enumerate}
"""Beside those of expressions; their iterators only serve loops."""


def rewritten_cases(
    tree: ast.Module, function: str, solution: SolutionNames
) -> list[Case]:
    """Returns the asserts of a test as cases, one per assert that calls the program.

    Args:
      tree: The test.
      function: The program's function that `check` is to be given, and that may shadow
        a builtin; or empty.
      solution: Names of the reference solution.

    Raises:
      NotEvaluableError: Something in the test cannot be rewritten.
    """
    if depth_of(tree) > MAX_DEPTH:
        raise NotEvaluableError(f"a syntax tree deeper than {MAX_DEPTH}")
    rewriter = _Rewriter(function, solution)
    rewriter.statements(tree.body)
    if rewriter.check is not None and not rewriter.has_checked:
        rewriter.enter_check(function)
    rewriter.refuse_aliases()
    return rewriter.cases


@dataclass
class _Binding:
    """What a variable stands for, and how it is used."""

    value: object
    sources: tuple["_Binding", ...] = ()
    """Variables that it may share data with."""
    num_uses: int = 0
    is_passed: bool = False
    """Whether the program gets hold of it."""

    def mark_passed(self) -> None:
        self.is_passed = True
        for source in self.sources:
            source.mark_passed()


@dataclass
class _Rewriter:
    """Goes through the statements of a test as if they ran."""

    function: str
    solution: SolutionNames
    bindings: dict[str, _Binding] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    candidate: str = ""
    """The parameter of `check`, while in its body."""
    check: ast.FunctionDef | None = None
    has_checked: bool = False
    cases: list[Case] = field(default_factory=list)
    mutables: list[_Binding] = field(default_factory=list)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            handler = self._HANDLERS.get(type(statement))
            if handler is None:
                raise NotEvaluableError(type(statement).__name__)
            handler(self, statement)

    def enter_check(self, function: str) -> None:
        """Goes through the body of `check` with a function of the program."""
        if self.check is None or not function:
            raise NotEvaluableError(f"{CHECK} without a function of the program")
        self.has_checked = True
        outer = dict(self.bindings)
        self.candidate, self.function = self.check.args.args[0].arg, function
        self.statements(self.check.body)
        self.candidate, self.bindings = "", outer

    def refuse_aliases(self) -> None:
        """Refuses data that the program may have changed before it is used again."""
        if any(found.is_passed and found.num_uses > 1 for found in self.mutables):
            raise NotEvaluableError("data that is used again after a call")

    # Statements

    def _expression(self, statement: ast.Expr) -> None:
        node = statement.value
        if isinstance(node, ast.Constant | ast.Name):
            return  # A docstring; a stray name, as HumanEval has one.
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == CHECK
            and self.check is not None
            and len(node.args) == 1
        ):
            self.enter_check(self._programs_function(node.args[0]))
            return
        raise NotEvaluableError(f"statement {ast.unparse(node)}")

    def _define(self, statement: ast.FunctionDef) -> None:
        arguments = statement.args
        is_check = statement.name == CHECK and len(arguments.args) == 1
        if not is_check or statement.decorator_list or self.check is not None:
            raise NotEvaluableError(f"definition of {statement.name}")
        self.check = statement

    def _import(self, statement: ast.Import) -> None:
        for alias in statement.names:
            if alias.name not in MODULES:
                raise NotEvaluableError(f"import of {alias.name}")
            self.aliases[alias.asname or alias.name] = alias.name

    def _import_from(self, statement: ast.ImportFrom) -> None:
        for alias in statement.names:
            name = f"{statement.module}.{alias.name}"
            if name not in FUNCTIONS and name not in CONSTANTS:
                raise NotEvaluableError(f"import of {name}")
            self.aliases[alias.asname or alias.name] = name

    def _assign(self, statement: ast.Assign) -> None:
        if len(statement.targets) != 1:
            raise NotEvaluableError("several targets")
        value, sources = self._constant(statement.value)
        self._bind(statement.targets[0], value, sources)

    def _for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise NotEvaluableError("else of a loop")
        items, sources = self._loop_items(statement.iter)
        for item in items:
            self._bind(statement.target, item, sources)
            self.statements(statement.body)

    def _assert(self, statement: ast.Assert) -> None:
        if len(self.cases) >= MAX_CASES:
            raise NotEvaluableError(f"more than {MAX_CASES} asserts")
        scope = self._scope()
        check_evaluable(statement.test, scope)
        self._count_uses(statement.test)
        calls = self._calls(statement.test, scope)
        if calls:
            self.cases.append(case_of(statement.test, calls, scope))
        elif not _is_true(statement.test, scope):
            # `assert True` is no test; `assert False` wants somebody to look at it.
            raise NotEvaluableError("an assert that is false whatever the program does")

    def _pass(self, statement: ast.Pass) -> None:
        pass

    _HANDLERS = {
        ast.Assert: _assert,
        ast.Assign: _assign,
        ast.Expr: _expression,
        ast.For: _for,
        ast.FunctionDef: _define,
        ast.Import: _import,
        ast.ImportFrom: _import_from,
        ast.Pass: _pass,
    }

    # Names

    def _scope(self) -> Scope:
        values = {name: found.value for name, found in self.bindings.items()}
        # What a test leaves to the solution's imports is the library's, not a function
        # of the program: a program must not bring its own idea of closeness along.
        aliases = {**LIBRARY_NAMES, **self.solution.imports, **self.aliases}
        return Scope(names=values, aliases=aliases, functions=self._programs_function)

    def _programs_function(self, node: ast.expr) -> str:
        """The program's function that an expression refers to, or nothing."""
        if isinstance(node, ast.Attribute):
            return self._programs_method(node)
        if not isinstance(node, ast.Name):
            return ""
        if self.candidate and node.id == self.candidate:
            return self.function
        is_check = node.id == CHECK and self.check is not None
        if node.id in self.bindings or node.id in self.aliases or is_check:
            return ""
        if node.id == self.function or node.id in self.solution.defined:
            return node.id
        others = {*LIBRARY_NAMES, *self.solution.imports, *BUILTIN_NAMES, *MODULES}
        return "" if node.id in others else node.id

    def _programs_method(self, node: ast.Attribute) -> str:
        """`Solution.f` for `Solution().f`, or nothing."""
        owner = node.value
        if not isinstance(owner, ast.Call) or owner.args or owner.keywords:
            return ""
        name = self._programs_function(owner.func)
        return f"{name}.{node.attr}" if self.solution.is_class(name) else ""

    def _bind(
        self, target: ast.expr, value: Any, sources: tuple[_Binding, ...]
    ) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = list(value) if isinstance(value, list | tuple) else []
            if len(parts) != len(target.elts):
                raise NotEvaluableError("values that do not fit their targets")
            for inner, part in zip(target.elts, parts, strict=True):
                self._bind(inner, part, sources)
            return
        if not isinstance(target, ast.Name):
            raise NotEvaluableError(f"target {ast.unparse(target)}")
        is_special = target.id in (self.function, self.candidate, CHECK)
        if is_special or target.id in FUNCTIONS or target.id in self.aliases:
            raise NotEvaluableError(f"a new meaning of {target.id}")
        binding = _Binding(value, sources)
        self.bindings[target.id] = binding
        if _is_mutable(value):
            self.mutables.append(binding)

    def _bindings_in(self, node: ast.AST) -> list[_Binding]:
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        return [self.bindings[name] for name in names if name in self.bindings]

    def _count_uses(self, node: ast.AST) -> None:
        for binding in self._bindings_in(node):
            binding.num_uses += 1

    # Values that are known beforehand

    def _constant(self, node: ast.expr) -> tuple[Any, tuple[_Binding, ...]]:
        """Value of an expression without calls, and the variables it may share."""
        scope = self._scope()
        check_evaluable(node, scope)
        self._count_uses(node)
        return _evaluated(node, scope), tuple(self._bindings_in(node))

    def _loop_items(self, node: ast.expr) -> tuple[list[Any], tuple[_Binding, ...]]:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _LOOP_FUNCTIONS
            and not node.keywords
        ):
            found = [self._loop_items(argument) for argument in node.args]
            items = _LOOP_FUNCTIONS[node.func.id](*(items for items, _ in found))
            sources = tuple(source for _, inner in found for source in inner)
            return _few(items), sources
        value, sources = self._constant(node)
        if not isinstance(value, list | tuple | str | dict | range):
            raise NotEvaluableError(f"a loop over {type(value).__name__}")
        return _few(value), sources

    # Calls of the program

    def _calls(self, test: ast.expr, scope: Scope) -> dict[int, Call]:
        """Calls of the program in an assert, by the identity of their nodes."""
        drained = {id(node) for node in drained_nodes(test, scope)}
        return {
            id(node): replace(self._call(node, scope), is_drained=id(node) in drained)
            for node in self._call_nodes(test)
        }

    def _call_nodes(self, node: ast.AST) -> Iterator[ast.Call]:
        if isinstance(node, ast.Call) and self._programs_function(node.func):
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self._call_nodes(child)

    def _call(self, node: ast.Call, scope: Scope) -> Call:
        for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
            inner = part.value if isinstance(part, ast.Starred) else part
            check_evaluable(inner, scope)
            if any(self._call_nodes(inner)):
                raise NotEvaluableError("a call inside a call")
            for binding in self._bindings_in(inner):
                binding.mark_passed()
        if any(keyword.arg is None for keyword in node.keywords):
            raise NotEvaluableError("** in a call")
        function = self._programs_function(node.func)
        if self.solution.is_class(function):
            raise NotEvaluableError(f"an instance of {function}")
        try:
            arguments = evaluated_items(node.args, scope)
            keywords = {str(k.arg): evaluate(k.value, scope) for k in node.keywords}
            call = Call(
                function=function, arguments=tuple(arguments), keywords=keywords
            )
            encoded_call(call)
        except Exception as error:
            # Whatever Python's own operators raise, or no plain data.
            raise NotEvaluableError(f"arguments: {error}") from error
        return call


def depth_of(tree: ast.AST) -> int:
    """Returns how deep a syntax tree is.

    Args:
      tree: However deep.
    """
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _few(items: Iterable[Any]) -> list[Any]:
    found = list(itertools.islice(items, MAX_CASES + 1))
    if len(found) > MAX_CASES:
        raise NotEvaluableError(f"a loop of more than {MAX_CASES} rounds")
    return found


def _evaluated(node: ast.expr, scope: Scope) -> Any:
    try:
        return evaluate(node, scope)
    except NotEvaluableError:
        raise
    except Exception as error:
        # Whatever Python's own operators raise.
        raise NotEvaluableError(f"{type(error).__name__}: {error}") from error


def _is_true(test: ast.expr, scope: Scope) -> bool:
    return bool(_evaluated(test, scope))


def _is_mutable(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_mutable, value))
    return isinstance(value, list | dict | set)
