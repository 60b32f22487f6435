import json
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgrpo.problems.output_prediction import driver


@pytest.mark.parametrize(
    ("code", "call", "expected"),
    [
        ("def f(x):\n return x + 1", "f(1)", ["2", "int", 1]),
        # Header, twice three rounds, the inner assignment in two of them, return.
        (
            "def f(x):\n for i in x:\n  x[0] = i\n  if i > 1:\n   x[0] = 9\n return x",
            "f([1, 2, 3])",
            ["[9, 2, 3]", "list", 1 + 3 + 3 + 2 + 1],
        ),
        (
            "def f(x):\n if x > 3:\n  return 'a'\n else:\n  x += 1\n return x",
            "f(1)",
            ["2", "int", 3],
        ),
        ("def f(x):\n while x > 0:\n  x -= 1\n return x", "f(4)", ["0", "int", 6]),
        ("def f(x):\n return [i for i in x]", "f((1, 2))", ["[1, 2]", "list", 1]),
    ],
)
def test_value_type_and_executed_statements(code, call, expected):
    assert driver.outcome(code, call) == expected


def test_a_call_mutates_only_its_own_arguments():
    code = "def f(x, y=[]):\n y.append(x)\n return y"
    assert driver.outcome(code, "f(1)") == driver.outcome(code, "f(1)")


def test_an_endless_loop_ends_at_the_statement_limit():
    code = "def f(x):\n while True:\n  x += 1"
    with pytest.raises(RuntimeError, match="more than 1000 statements"):
        driver.outcome(code, "f(1)")


def test_whatever_raises_has_no_outcome():
    assert driver.outcome_or_none("def f(x):\n return x[9]", "f([])") is None
    assert driver.outcome_or_none("def f(x) return", "f([])") is None
    assert driver.outcome_or_none("def f(x):\n return f(x)", "f(1)") is None


def test_runs_as_a_program_without_the_package():
    request = [["def f(x):\n return 1 / x", "f(2)"], ["def f(x):\n return x", "f()"]]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", Path(driver.__file__).read_text()],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [["0.5", "float", 1], None]
