"""One assert that was rewritten: the calls it needs, and how it is decided."""

import ast
from collections.abc import Sequence
from dataclasses import replace

from jaxgrpo.host.judge.batches import Case
from jaxgrpo.host.judge.conditions import Scope, evaluate
from jaxgrpo.host.judge.operations import DRAINING
from jaxgrpo.host.judge.results import failed_call, made_of, passed, shown, wrong
from jaxgrpo.host.records import Call, CallResult, Execution, TestResult


def drained_nodes(test: ast.expr, scope: Scope) -> list[ast.expr]:
    """Returns expressions of which only the items count, as in `list(f(x))`.

    Args:
      test: What is asserted.
      scope: What its names stand for.
    """
    return [
        node.args[0]
        for node in ast.walk(test)
        if isinstance(node, ast.Call)
        and scope.dotted_name(node.func) in DRAINING
        and not scope.functions(node.func)
        and (
            len(node.args) == 1 or (node.args and scope.dotted_name(node.func) == "sum")
        )
    ]


class _NoValueError(Exception):
    """An assert depends on a call that gave no value."""

    def __init__(self, result: CallResult) -> None:
        self.result = result


def case_of(test: ast.expr, calls: dict[int, Call], scope: Scope) -> Case:
    """Returns one assert as a case, to be decided when its calls have been made.

    Args:
      test: What is asserted.
      calls: The calls of the program in it, by the identity of their nodes.
      scope: What its other names stand for.
    """
    places = {node: place for place, node in enumerate(calls)}
    functions = {
        id(node.func): "the program's"
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and id(node) in calls
    }

    def decide(execution: Execution, given: Sequence[CallResult]) -> TestResult:
        def value_of(node: ast.Call) -> object:
            result = given[places[id(node)]]
            if result.status != "OK":
                raise _NoValueError(result)
            return result.value

        complete = replace(
            scope, call=value_of, functions=lambda node: functions.get(id(node), "")
        )
        made = made_of(given)
        try:
            if evaluate(test, complete):
                return passed(execution, made)
        except _NoValueError as error:
            return failed_call(execution, error.result)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            detail = f"assert {ast.unparse(test)}: {type(error).__name__}: {error}"
            return wrong(execution, made, detail)
        values = ", ".join(shown(result.value) for result in given)
        detail = f"assert {ast.unparse(test)}; it gave {values}"
        return wrong(execution, made, detail)

    return Case(calls=tuple(calls.values()), decide=decide)
