"""Programs that are wrong in one statement, and whether that statement is blamed.

A mutant differs from its reference in an operator or a constant of one statement, or in
a bound. Statements that are left out are no part of it: what is not there has no
characters to blame.
"""

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from jaxgrpo.host.credit.blame import Blaming, blame_of, standard
from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.programs import judge_program
from jaxgrpo.host.records import Blame, Limits, Problem, Test
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.mini_programs.generator import drafts
from tests.host.judge.mutants import mutants_of
from tests.host.judge.real_problems import mbpp
from tests.host.trace.faults import faulty

JUDGING = JudgeSettings(
    extraction="raw", limits=Limits(cpu_s=0.5), stops_at_failure=True
)
# Whether a mutant keeps to constraints is not what is measured.
HOW = Blaming(
    settings=BlameSettings(constraints=(), min_similarity=0.0, limits=Limits(cpu_s=1.0))
)


class Mutant(NamedTuple):
    source: str
    lines: tuple[int, ...]
    """Of the statement that is wrong."""


class Found(NamedTuple):
    blame: Blame
    is_there: bool
    """Whether the span touches the statement that is wrong."""


def mini_programs(number: int) -> Iterator[Problem]:
    """Problems of the data set, with tests by what their references do."""
    for index, draft in enumerate(drafts(11, 0, number)):
        names: dict = {}
        exec(draft.reference, names)
        tests = tuple(
            Test(
                kind="call", function="f", arguments=arguments,
                expected=names["f"](*copy.deepcopy(arguments)),
            )
            for arguments in draft.inputs
        )  # fmt: skip
        yield _written_plainly(
            Problem(
                id=f"mini/{index}", kind="call", prompt=draft.prompt,
                reference=draft.reference, tests=tests,
            )
        )  # fmt: skip


def real_programs(number: int) -> Iterator[Problem]:
    """References of MBPP, in a fixed random order."""
    problems = mbpp()
    random.Random(0).shuffle(problems)
    for problem in problems[:number]:
        try:
            yield _written_plainly(problem)
        except SyntaxError:
            continue  # One is written for Python 2.


def _written_plainly(problem: Problem) -> Problem:
    """As mutants are written, so that lines agree."""
    return replace(problem, reference=ast.unparse(ast.parse(problem.reference)))


def mutants(problem: Problem, most: int, generator: random.Random) -> list[Mutant]:
    """Up to `most` mutants by each of two mutators."""
    changed = [
        Mutant(text, (line,)) for text, line in faulty(problem.reference, generator)
    ]
    generator.shuffle(changed)
    found = changed[:most]
    for other in mutants_of(problem.reference, problem.id, most):
        lines = _other_lines(problem.reference, other.source)
        if other.kind != "dropped" and lines:
            found.append(Mutant(other.source, lines))
    return list({mutant.source: mutant for mutant in found}.values())


class _Writing(ast.NodeTransformer):
    has_changed = False


def _written_anew(source: str, writing: _Writing) -> str | None:
    tree = ast.fix_missing_locations(writing.visit(ast.parse(source)))
    return ast.unparse(tree) if writing.has_changed else None


def over_indices(source: str) -> str | None:
    """The program with loops over indices, `xs[x_i]` for `x`; None where it has none.

    Only `for x in xs` and the uses of `x` inside are written anew.
    """
    return _written_anew(source, _OverIndices())


class _OverIndices(_Writing):
    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Name(id=items)) if not any(
                _sets(inner, name) for inner in node.body
            ):
                self.has_changed = True
                item = _Named(name, f"{items}[{name}_i]")
                node.body = [item.visit(inner) for inner in node.body]
                node.iter = ast.parse(f"range(len({items}))", mode="eval").body
                node.target = ast.Name(f"{name}_i", ast.Store())
        return node


class _Named(ast.NodeTransformer):
    """Puts an expression in the place of a name."""

    def __init__(self, name: str, expression: str) -> None:
        self._name = name
        self._expression = expression

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != self._name:
            return node
        return ast.parse(self._expression, mode="eval").body


def _sets(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(inner, ast.Name)
        and inner.id == name
        and isinstance(inner.ctx, ast.Store)
        for inner in ast.walk(node)
    )


def with_exchanged_branches(source: str) -> str | None:
    """The program with `if not C: B else: A` for `if C: A else: B`; None as above."""
    return _written_anew(source, _Exchanged())


class _Exchanged(_Writing):
    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        is_chain = any(
            len(part) == 1 and isinstance(part[0], ast.If)
            for part in (node.body, node.orelse)
        )
        if node.orelse and not is_chain:
            self.has_changed = True
            node.test = ast.UnaryOp(ast.Not(), node.test)
            node.body, node.orelse = node.orelse, node.body
        return node


Rewrite = Callable[[str], str | None]


def rewritten_mutants(
    problem: Problem, most: int, generator: random.Random, rewrite: Rewrite
) -> list[Mutant]:
    """Mutants that are written in another way than the reference."""
    plain = rewrite(problem.reference)
    if plain is None:
        return []
    found = []
    for mutant in mutants(problem, most, generator):
        source = rewrite(mutant.source)
        if source is not None and (lines := _other_lines(plain, source)):
            found.append(Mutant(source, lines))
    return found


def _other_lines(one: str, other: str) -> tuple[int, ...]:
    ours, theirs = one.splitlines(), other.splitlines()
    if len(ours) != len(theirs):
        return ()
    pairs = enumerate(zip(ours, theirs, strict=True), start=1)
    return tuple(line for line, (a, b) in pairs if a != b)


def found_in(problem: Problem, mutant: Mutant, sandbox: Sandbox) -> Found | None:
    """What is blamed of a mutant; None if it passes, or could not be judged."""
    verdict = judge_program(problem, mutant.source, sandbox, JUDGING)
    if verdict.status in ("OK", "INFRA"):
        return None
    blame = blame_of(
        standard(problem, sandbox.run, HOW),
        extract(mutant.source, "raw"),
        verdict,
        random.Random(0),
    )
    if blame.span is None:
        return Found(blame, False)
    first, last = (
        mutant.source.count("\n", 0, place) + 1
        for place in (blame.span.start, blame.span.end - 1)
    )
    return Found(blame, any(first <= line <= last for line in mutant.lines))
