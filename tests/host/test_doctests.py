import doctest
import importlib

import pytest

MODULES = [
    "credit.comparability",
    "credit.constraints",
    "credit.told_constraints",
    "credit.user_functions",
    "hints.knowledge",
    "hints.layout",
    "hints.literals",
    "hints.planning",
    "hints.solution",
    "hints.words",
    "judge.literal",
    "judge.literal_values",
    "prompt_variants",
    "prompts",
    "scorer",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name: str):
    module = importlib.import_module(f"jaxgrpo.host.{name}")
    failed, attempted = doctest.testmod(module)
    assert attempted > 0
    assert failed == 0
