import math

import pytest

from jaxgrpo.host.rewards.ruff import Settings, check_installed, columns, ruff, severity
from tests.host.rewards.groups import of_literals, of_programs

CLEAN = "def f(x):\n    return x + 1\n"
UNUSED = f"import os\n\n\n{CLEAN}"
"""F401: 2."""
UNDEFINED = "def f(x):\n    return y\n"
"""F821: 3."""
LONG = f"def f(x):\n    return x  {'#' * 100}\n"
"""E501: 1."""
WORST = "def f(x):\n    return a + b + c + d\n"
"""Four times F821: 12, more than the cap."""
UNPARSABLE = "def f(x)\n    return x\n"
TOO_DEEP = f"x = [{'+'.join(['1'] * 8000)}]\n"


def test_arithmetic_by_hand():
    judged = of_programs(CLEAN, UNUSED, UNDEFINED, LONG, WORST)
    expected = [0.0, -0.2, -0.3, -0.1, -1.0]
    assert ruff(judged, Settings()) == pytest.approx(expected)
    halved = [-0.0, -0.1, -0.15, -0.05, -0.6]
    assert ruff(judged, Settings(cap=20.0)) == pytest.approx(halved)


def test_empty_or_unparsable_answer_is_never_the_cleanest():
    judged = of_programs("", UNPARSABLE, "  \n", "x = 1\0\n", CLEAN)
    assert ruff(judged, Settings()) == [-1.0, -1.0, -1.0, -1.0, 0.0]


def test_program_that_nests_too_deeply_takes_no_other_down():
    deep, clean = ruff(of_programs(TOO_DEEP, CLEAN), Settings())
    assert deep == -1.0 or math.isnan(deep)  # newer Pythons parse more than Ruff
    assert clean == 0.0


def test_credit_is_the_same_from_another_level():
    judged = of_programs(CLEAN, UNUSED, "", UNPARSABLE)
    found = ruff(judged, Settings(as_credit=True))
    assert found == pytest.approx([1.0, 0.8, 0.0, 0.0])


def test_violations_are_told_by_severity_and_rule():
    both = "import os\nimport sys\n\nx = nobody\n"
    rows = columns(of_programs(both, "", UNPARSABLE), Settings())
    assert rows[0] == {
        "empty": 0.0,
        "unparsable": 0.0,
        "violations": 3.0,
        "fatal": 1.0,
        "serious": 2.0,
        "light": 0.0,
        "F401": 2.0,
        "F821": 1.0,
    }
    assert (rows[1]["empty"], rows[1]["unparsable"]) == (1.0, 0.0)
    assert (rows[2]["empty"], rows[2]["unparsable"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("E999", 3), ("E902", 3), ("F821", 3), ("F822", 3), ("invalid-syntax", 3),
        ("F401", 2), ("F811", 2), ("B006", 2), ("S101", 2), ("PLE0101", 2),
        ("E501", 1), ("E722", 1), ("W291", 1), ("N802", 1), ("C901", 1), ("I001", 1),
        ("D103", 1), ("SIM108", 1), ("BLE001", 1), ("FBT001", 1), ("PLR2004", 1),
        ("unheard-of", 1),
    ],
)  # fmt: skip
def test_severity_is_by_the_linters_whole_name(code: str, expected: int):
    assert severity(code) == expected


def test_only_selected_rules_count():
    judged = of_programs(UNUSED)
    assert ruff(judged, Settings(select=("E",))) == [0.0]
    # Undocumented module and function, and the unused import.
    assert ruff(judged, Settings(select=("D1", "F"))) == pytest.approx([-0.4])


def test_problem_that_asks_for_a_value_is_none_of_its_business():
    judged = of_literals("1", "1")
    assert math.isnan(ruff(judged, Settings())[0])
    assert columns(judged, Settings()) == [{}]


def test_settings_are_checked_before_a_run():
    with pytest.raises(ValueError, match="cap 0.0"):
        Settings(cap=0.0)
    with pytest.raises(ValueError, match="rules have names such as"):
        Settings(select=("E", "--fix"))
    with pytest.raises(ValueError, match="refuses the rules QQ9"):
        check_installed(Settings(select=("QQ9",)))
    check_installed(Settings())
