from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from jaxgrpo.host.records import Completion, Group, Problem, Test


def completion_of(text: str, problem_id: str = "p") -> Completion:
    """A completion of which only the text matters: one token per character."""
    length = len(text)
    starts = np.arange(length, dtype=np.int32)
    return Completion(
        problem_id=problem_id,
        token_ids=starts,
        text=text,
        token_offsets=np.stack([starts, starts + 1], axis=1),
        finish_reason="eos",
        sampler_logprobs=np.zeros(length, np.float32),
    )


def group_of(reference: str, *texts: str, problem_id: str = "p") -> Group:
    """A group of an output-prediction problem."""
    problem = Problem(id=problem_id, kind="output", prompt="", reference=reference)
    completions = tuple(completion_of(text, problem_id) for text in texts)
    return Group(problem=problem, prompts=(), completions=completions)


def program_group_of(*sources: str, problem_id: str = "double") -> Group:
    """A group of a problem whose programs read a number and print its double."""
    test = Test(kind="stdin", stdin="21\n", expected="42\n")
    problem = Problem(
        id=problem_id, kind="stdin", prompt="", reference="", tests=(test,)
    )
    texts = [f"Here:\n```python\n{source}\n```\n" for source in sources]
    completions = tuple(completion_of(text, problem_id) for text in texts)
    return Group(problem=problem, prompts=(), completions=completions)


@pytest.fixture
def make_program_group() -> Callable[..., Group]:
    return program_group_of


@pytest.fixture
def make_completion() -> Callable[..., Completion]:
    return completion_of


@pytest.fixture
def make_group() -> Callable[..., Group]:
    return group_of


@pytest.fixture
def endless_group() -> Group:
    """A group whose similarity reward keeps a worker busy for minutes."""
    group = group_of("a" * 440, "ab" * 220, problem_id="endless")
    return replace(group, completions=group.completions * 1000)
