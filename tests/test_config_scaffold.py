"""Hints that no problem has are refused before anything is trained."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_scaffold import check_hints
from jaxgrpo.console import Console
from jaxgrpo.host.records import Problem
from jaxgrpo.training_problems import check_levels, training_problems

BASE: dict[str, Any] = {
    "model": {"checkpoint": "builtin:output_prediction_base"},
    "rewards": {"exact": {"weight": 1.0}},
}


def config(dataset: str = "output_prediction", **tables: Any) -> Config:
    scaffold = {k: v for k, v in tables.items() if k not in ("sampling", "data")}
    given = BASE | {
        "data": {"dataset": dataset, **tables.get("data", {})},
        "sampling": tables.get("sampling", {}),
        "scaffold": scaffold,
    }
    if dataset not in ("output_prediction", "trace_prediction", "cruxeval"):
        given["rewards"] = {"tests": {"weight": 1.0}}
    return Config.model_validate_json(json.dumps(given))


@pytest.mark.parametrize(
    ("dataset", "scaffold", "message"),
    [
        ("mbpp", {"tiers": ["solution"]}, "'solution': problems .* bring no hints"),
        ("output_prediction", {"tiers": ["knowledge"]}, "bring no hints along. Set sc"),
        ("mbpp", {"tiers": ["trace"]}, "'trace' asks for the run of given code, and"),
        (
            "cruxeval",
            {"tiers": ["knowledge", "planning"], "source": "reference"},
            "'planning': references of data.dataset 'cruxeval' are values",
        ),
        (
            "output_prediction",
            {"tiers": ["trace"], "source": "reference"},
            "scaffold.source 'reference' has no effect",
        ),
        ("mbpp", {"source": "reference"}, "source 'reference' has no effect"),
        (
            "output_prediction",
            {"tiers": ["trace"], "sampling": {"constraint": "python_literal"}},
            "sampling.constraint 'python_literal' does not let",
        ),
        (
            "output_prediction",
            {"tiers": ["two_stage"], "sampling": {"stop": ["\n"]}},
            r"sampling.stop '\\n' ends completions at the first",
        ),
        ("output_prediction", {"tiers": ["trace", "trace"]}, "names a tier twice"),
    ],
)
def test_hints_that_cannot_be_are_refused(
    dataset: str, scaffold: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        config(dataset, **scaffold)


@pytest.mark.parametrize(
    ("dataset", "scaffold"),
    [
        ("mbpp", {"tiers": ["planning", "solution"], "source": "reference"}),
        ("mini_programs", {"tiers": ["planning"]}),
        ("mini_programs", {"tiers": ["planning"], "source": "reference"}),
        ("trace_prediction", {"tiers": ["trace", "two_stage"], "after_failures": 2}),
        ("cruxeval", {"tiers": ["trace", "knowledge"], "source": "reference"}),
        (
            "output_prediction",
            {
                "tiers": ["trace"],
                "sampling": {"constraint": "python_literal", "constraint_after": "="},
            },
        ),
        ("file", {"tiers": ["trace", "solution"], "data": {"path": "f.jsonl"}}),
    ],
)
def test_hints_that_may_be_are_taken(dataset: str, scaffold: dict[str, Any]):
    config(dataset, **scaffold)


def problem(**changes: Any) -> Problem:
    plain = Problem(id="p", kind="call", prompt="", reference="")
    return replace(plain, **changes)


def test_tiers_that_no_problem_has_are_refused_when_the_data_is_there():
    tiers = ("knowledge", "solution")
    bare, known = problem(), problem(hints=("a",), hint_tiers=("knowledge",))
    untold = problem(hints=("a",))
    check_hints([bare, untold], tiers, "data", "x")
    with pytest.raises(ValueError, match="'solution': no problem of x .*columns"):
        check_hints([bare, known], tiers, "data", "x")
    with pytest.raises(ValueError, match="'knowledge', 'solution': no problem"):
        check_hints([bare], tiers, "reference", "x")
    check_hints([bare, problem(reference="x = 1\ny = 2\n")], tiers, "reference", "x")
    with pytest.raises(ValueError, match="'trace': no problem"):
        check_hints([known], ("trace",), "data", "x")


def test_problems_are_looked_at_until_all_tiers_are_found():
    def problems() -> Any:
        yield problem(kind="output", reference="1")
        raise AssertionError("enough was seen")

    check_hints(problems(), ("trace", "knowledge"), "reference", "x")
    check_hints(problems(), (), "data", "x")


def test_levels_that_no_problem_is_of_are_named():
    problems = [
        replace(problem(), tags={"difficulty": level, "source": "x"})
        for level in ("easy", "hard")
    ]
    check_levels(problems, ("hard", "easy"), "difficulty", "x")
    check_levels(problems, (), "difficulty", "x")
    # A later level too, which a run would find out about late or never.
    message = "names 'hrd', and no problem of x .*values are: easy, hard. Correct"
    with pytest.raises(ValueError, match=message):
        check_levels(problems, ("easy", "hrd"), "difficulty", "x")
    message = "curriculum.tag 'level': .*tags are: difficulty, source. Set"
    with pytest.raises(ValueError, match=message):
        check_levels(problems, ("easy",), "level", "x")


def test_a_run_says_that_no_problem_is_of_a_level(tmp_path: Path):
    rows = [
        {"id": i, "prompt": f"Write f{i}.", "tests": [f"assert f{i}() is None"]}
        for i in range(40)
    ]
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"path": str(path), "cache_dir": str(tmp_path)}
    made = config("file", data=data, sampling={"problems_per_step": 2})
    curriculum = made.curriculum.model_copy(update={"order": ("easy",)})
    made = made.model_copy(update={"curriculum": curriculum})
    with pytest.raises(ValueError, match="no problem of the split 'train' of file"):
        training_problems(made, tmp_path, Console("quiet", 1))


def test_a_run_says_that_its_data_has_no_hints(tmp_path: Path):
    rows = [
        {"id": i, "prompt": f"Write f{i}.", "tests": [f"assert f{i}() is None"]}
        for i in range(40)
    ]
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"path": str(path), "cache_dir": str(tmp_path)}
    sampling = {"problems_per_step": 2}
    made = config("file", tiers=["solution"], data=data, sampling=sampling)
    with pytest.raises(ValueError, match="no problem of the split 'train' of file"):
        training_problems(made, tmp_path, Console("quiet", 1))
