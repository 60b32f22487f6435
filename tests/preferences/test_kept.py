"""What is read back of kept completions, and what is refused."""

from pathlib import Path

import pytest

from jaxgrpo.preferences.kept import read_kept
from tests.preferences.evaluated import LOST, write_evaluation

TEXTS = {
    "a": ["True", "False", "False", LOST],
    "b": ["(", "", "So:\n[1]"],
}


@pytest.fixture(scope="module")
def kept_in(tmp_path_factory: pytest.TempPathFactory, session_cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "evaluation"
    return write_evaluation(
        folder, TEXTS, session_cache, "scorer.literal_extraction=last_line"
    )


def test_rows_have_their_problem_answer_and_verdict(kept_in: Path):
    kept = read_kept(kept_in)
    rows = [(row.problem.id, row.answer, row.is_right) for row in kept.rows]
    assert rows == [
        ("a", "True", True), ("a", "False", False), ("a", "False", False),
        ("b", "", False), ("b", "", False), ("b", "[1]", False),
    ]  # fmt: skip
    assert kept.problems["a"].prompt == "Is a so?"
    assert kept.template == "{prompt}"


def test_answers_are_those_that_parse(kept_in: Path):
    answers = [(j.problem_id, j.answer) for j in read_kept(kept_in).answers]
    assert answers == [("a", "True"), ("a", "False"), ("a", "False"), ("b", "[1]")]


def test_only_the_passes_asked_for_are_read(kept_in: Path):
    with pytest.raises(ValueError, match="holds no judged completions"):
        read_kept(kept_in, passes=("greedy",))


def test_other_folders_are_refused_with_what_they_hold(kept_in: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="neither a run with rollouts"):
        read_kept(tmp_path)
    with pytest.raises(ValueError, match="It has kept: give one of them"):
        read_kept(kept_in.parent)


def test_changed_data_is_refused(tmp_path: Path, session_cache: Path):
    other = write_evaluation(
        tmp_path / "other", TEXTS, session_cache, asked="Is {name} no more so?"
    )
    with pytest.raises(ValueError, match="'a' that was asked another question"):
        read_kept(other)
