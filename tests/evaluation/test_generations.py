"""Kept generations: read back as they were, whatever interrupted the writing."""

from dataclasses import replace

import numpy as np
import pytest

from jaxgrpo.evaluation.generations import Generations, generations_folder
from jaxgrpo.evaluation.outcomes import answers_of
from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.judge.results import infra_verdict
from jaxgrpo.host.records import Group, Prompt, Score
from jaxgrpo.host.scoring import abstaining_score
from jaxgrpo.rollout_table import read_part
from tests.host.conftest import group_of


def scored(problem_id: str, *texts: str) -> Group:
    group = group_of("[1]", *texts, problem_id=problem_id)
    verdicts = [judge_literal(text, "[1]") for text in texts]
    prompt = Prompt(
        problem_id=problem_id,
        text=f"ask {problem_id}",
        token_ids=np.arange(4, dtype=np.int32),
    )
    completions = [
        replace(completion, sample=number)
        for number, completion in enumerate(group.completions)
    ]
    return replace(
        group,
        prompts=(prompt,),
        completions=tuple(completions),
        scores=tuple(
            Score(rewards={}, verdict=v, error_class=v.error_class) for v in verdicts
        ),
    )


GROUPS = [scored("a", "[1]", "[ 1]"), scored("b", "x", ""), scored("c", "[2]", "[1]")]
PROMPTS = {name: f"ask {name}" for name in "abcd"}


def test_answers_are_read_back_as_they_were(tmp_path):
    kept = Generations(tmp_path, step=7)
    kept.write(GROUPS[:2])
    kept.write(GROUPS[2:])
    found = Generations(tmp_path, step=7).read(PROMPTS)
    assert found == {group.problem.id: answers_of(group) for group in GROUPS}


def test_parts_have_the_columns_of_the_rollout_table(tmp_path):
    Generations(tmp_path, step=7).write(GROUPS)
    rows = read_part(tmp_path / "part_000000.parquet").to_pylist()
    assert [row["completion"] for row in rows] == ["[1]", "[ 1]", "x", "", "[2]", "[1]"]
    assert rows[0]["step"] == 7 and rows[0]["verdict"] == "OK"
    assert rows[0]["advantage"] is None and rows[0]["trainer_logprobs"] is None
    assert rows[0]["vote"] == rows[1]["vote"] != rows[4]["vote"]
    assert rows[3]["vote"] == "" and rows[3]["num_tests"] == 1


def test_a_half_written_part_is_no_part(tmp_path):
    kept = Generations(tmp_path, step=0)
    kept.write(GROUPS[:1])
    (tmp_path / ".part_000001.parquet.tmp").write_bytes(b"PAR1 half")
    assert list(Generations(tmp_path, step=0).read(PROMPTS)) == ["a"]


def test_what_the_machine_failed_to_judge_is_to_be_drawn_again(tmp_path):
    infra = abstaining_score([], infra_verdict("worker died"), "worker died")
    lost = replace(GROUPS[1], scores=(GROUPS[1].scores[0], infra))
    Generations(tmp_path, step=0).write([GROUPS[0], lost])
    again = Generations(tmp_path, step=0)
    assert list(again.read(PROMPTS)) == ["a"]
    again.write([GROUPS[1]])
    rows = [
        row["problem_id"]
        for path in sorted(tmp_path.glob("*.parquet"))
        for row in read_part(path).to_pylist()
    ]
    assert rows == ["a", "a", "b", "b"]


def test_another_prompt_of_a_problem_is_refused(tmp_path):
    Generations(tmp_path, step=0).write(GROUPS)
    with pytest.raises(ValueError, match="problem 'b' whose prompt was another"):
        Generations(tmp_path, step=0).read(PROMPTS | {"b": "ask otherwise"})


def test_halves_of_surrogate_pairs_are_kept_as_replacement_characters(tmp_path):
    (group,) = [scored("\ud800", "[1]")]
    Generations(tmp_path, step=0).write([group])
    found = Generations(tmp_path, step=0).read({"\ud800": "ask \ud800"})
    assert found == {"\ud800": answers_of(group)}


def test_the_folder_is_one_for_each_identity(tmp_path):
    first = generations_folder(tmp_path, "runs/a b", {"seed": 1, "step": 2})
    assert first.is_dir() and first.name.startswith("runs-a-b-")
    assert generations_folder(tmp_path, "runs/a b", {"step": 2, "seed": 1}) == first
    assert generations_folder(tmp_path, "runs/a b", {"step": 3, "seed": 1}) != first
