"""LiveCodeBench's encodings: decoded in full, and never by running them."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.problems.formats import livecodebench
from jaxgrpo.problems.formats.format import MalformedRowError
from jaxgrpo.problems.formats.livecodebench import livecodebench_problem
from jaxgrpo.problems.formats.pickled_text import text_in_pickle

from .published import LCB_FUNCTIONAL, LCB_STDIN, packed


@given(text=st.text(), protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_text_is_read_as_pickle_reads_it(text: str, protocol: int):
    assert text_in_pickle(pickle.dumps(text, protocol)) == text


@pytest.mark.parametrize("value", [b"bytes", 7, None, ["text"], ("a", "b"), {"a": "b"}])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_of_something_else_is_refused(value: object, protocol: int):
    with pytest.raises(ValueError, match="a pickle"):
        text_in_pickle(pickle.dumps(value, protocol))


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path):
        self._path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_hostile_pickle_is_refused_and_does_not_run(protocol: int, tmp_path: Path):
    mark = tmp_path / "ran"
    content = pickle.dumps(Hostile(mark), protocol)
    row = LCB_STDIN | {
        "private_test_cases": base64.b64encode(zlib.compress(content)).decode()
    }
    with pytest.raises(MalformedRowError) as caught:
        livecodebench_problem(row, "test.jsonl: row 3")
    assert str(caught.value).startswith("test.jsonl: row 3: private_test_cases: ")
    assert "a pickle with " in str(caught.value)
    assert not mark.exists()
    # The attack itself works, or this would show nothing.
    pickle.loads(content)
    assert mark.exists()


@given(content=st.binary(max_size=200))
def test_any_bytes_are_text_or_refused(content: bytes):
    try:
        assert isinstance(text_in_pickle(content), str)
    except ValueError:
        pass


def test_bomb_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(livecodebench, "MAX_DECODED_BYTES", 1000)
    row = LCB_STDIN | {"private_test_cases": packed(["x" * 2000])}
    with pytest.raises(MalformedRowError, match="more than 1000 bytes"):
        livecodebench_problem(row, "f")


def test_both_encodings_give_the_same_tests():
    tests = [{"input": "1\n", "output": "1\n", "testtype": "stdin"}] * 3
    plain = LCB_STDIN | {"private_test_cases": json.dumps(tests)}
    lite = LCB_STDIN | {"private_test_cases": packed(tests)}
    problem = livecodebench_problem(plain, "f")
    assert problem == livecodebench_problem(lite, "f")
    assert len(problem.tests) == 4
    assert problem.columns["num_public_tests"] == 1


def test_stdin_problem_keeps_what_its_row_says():
    problem = livecodebench_problem(LCB_STDIN, "f")
    assert problem.tags == {
        "dataset": "livecodebench",
        "platform": "atcoder",
        "difficulty": "easy",
        "contest_month": "2023-04",
    }
    assert problem.columns["contest_date"] == "2023-04-29"
    assert "standard input" in problem.prompt


def test_functional_problem_calls_the_method_with_a_value_per_line():
    problem = livecodebench_problem(LCB_FUNCTIONAL, "f")
    assert isinstance(problem.tests, tuple)
    first, _ = problem.tests
    assert (first.kind, first.function) == ("call", "Solution.pick")
    assert first.arguments == ([1, 2, 3], 2)
    assert first.expected == [1, 2]
    assert "class Solution:" in problem.prompt


def test_hidden_tests_are_not_in_the_prompt():
    secret = [{"input": "913 1\n", "output": "914\n", "testtype": "stdin"}]
    row = LCB_STDIN | {"private_test_cases": packed(secret)}
    assert "913" not in livecodebench_problem(row, "f").prompt
