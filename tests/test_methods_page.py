"""docs/methods.md says which methods go together as the code has it."""

from pathlib import Path

import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_combinations import (
    METHODS,
    check_combinations,
    combination_table,
)

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"


def test_the_page_holds_the_table_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- combinations -->\n")
    table, _, _ = rest.partition("<!-- end of combinations -->")
    assert table == combination_table(), f"write this to {PAGE}:\n{combination_table()}"


def test_every_conflict_names_a_method():
    names = {method.name for method in METHODS}
    for method in METHODS:
        assert method.conflicts.keys() <= names - {method.name}


def test_methods_that_exclude_each_other_are_refused_with_the_reason():
    data = {
        "model": {"checkpoint": "builtin:output_prediction_base"},
        "rewards": {"exact": {"weight": 1.0}},
        "replay": {"method": "groups"},
    }
    check_combinations(Config.model_validate(data))
    both = data | {"dynamic_sampling": {"max_tries": 2}}
    with pytest.raises(
        ValueError, match="dynamic_sampling: it replaces dead groups, which"
    ):
        Config.model_validate(both)
