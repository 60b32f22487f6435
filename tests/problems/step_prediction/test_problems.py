"""The data set: problems, what solves them, and the targets of the supervised mode."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.config import DataConfig
from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import judge
from jaxgrpo.host.records import Problem
from jaxgrpo.host.trace.steps import predicted_steps, recorded_steps
from jaxgrpo.problems.datasets import load_problems
from jaxgrpo.problems.generation import split_of_text
from jaxgrpo.problems.output_prediction.tokenizer import write_tokenizer
from jaxgrpo.problems.step_prediction.anchors import MAX_LINES, anchored
from jaxgrpo.problems.targets import target_style

SIZES: dict[str, Any] = {"num_train": 60, "num_validation": 4, "num_test": 12}


@pytest.fixture(scope="module")
def problems(session_cache: Path) -> Sequence[Problem]:
    data = DataConfig(
        dataset="step_prediction",
        cache_dir=str(session_cache),
        build_workers=1,
        **SIZES,
    )
    return [p for split in ("train", "test") for p in load_problems(data, split)]


def test_problems_ask_for_lines_that_a_judge_and_the_parser_know(problems):
    for problem in problems:
        steps = recorded_steps(problem)
        assert problem.kind == "trace"
        assert 2 <= len(steps) <= MAX_LINES
        assert problem.tags["steps"] == str(len(steps))
        assert steps[-1].value == problem.reference
        code, call = str(problem.columns["code"]), str(problem.columns["call"])
        assert problem.prompt == f"{anchored(code, 'f')}\n{call}"
        text = target_style("step_prediction", "lines")(problem, 1.0).target
        assert all(step.is_exact for step in predicted_steps(text, steps))
        for answer in (text, text + "\n", problem.reference):
            verdict = judge(problem, completion_of(problem.id, answer))
            assert verdict.error_class == "exact", answer
        wrong = judge(problem, completion_of(problem.id, text + "0"))
        assert not wrong.is_correct
        # Without recorded steps the whole text would be the answer.
        plain = replace(problem, columns={})
        assert not judge(plain, completion_of(problem.id, text)).is_correct


def test_splits_share_no_function(problems):
    for problem in problems:
        (split,) = {"train", "test"} & set(problem.id.split("/"))
        assert split_of_text(str(problem.columns["code"])) == split


def test_targets_are_lines_or_answers_by_share(problems):
    style = target_style("step_prediction", "lines")
    assert [style(p, 0.0).target for p in problems] == [p.reference for p in problems]
    half = sum("\n" in style(p, 0.5).target for p in problems)
    assert 0.3 * len(problems) < half < 0.7 * len(problems)
    assert style(problems[0], 0.5) == style(problems[0], 0.5)


def test_most_fit_the_shipped_configuration(problems, tmp_path: Path):
    from transformers import AutoTokenizer

    write_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    style = target_style("step_prediction", "lines")
    prompts = [len(tokenizer(p.prompt).input_ids) for p in problems]
    targets = [len(tokenizer(style(p, 1.0).target).input_ids) for p in problems]
    assert sum(length <= 120 for length in prompts) > 0.6 * len(problems)
    assert sum(length < 48 for length in targets) > 0.95 * len(problems)
