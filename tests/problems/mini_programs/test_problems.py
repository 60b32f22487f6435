"""Problems as training meets them: disjoint splits, true references, sharp tests."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pytest

from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.records import Completion, Problem, Verdict
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.generation import split_of_text
from jaxgrpo.problems.mini_programs.generator import LEVELS
from jaxgrpo.problems.mini_programs.inputs import NUM_TESTS, probes
from tests.host.judge.mutants import mutants_of

SPLITS = ("train", "validation", "test")
TIERS = ["knowledge", "planning", "solution"]


@pytest.fixture(scope="module")
def problems(load_mini_split) -> list[Problem]:
    """All problems of a small data set."""
    return [problem for split in SPLITS for problem in load_mini_split(split)]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def verdict_on(problem: Problem, source: str, sandbox: Sandbox) -> Verdict:
    completion = Completion(
        problem_id=problem.id,
        token_ids=np.zeros(0, np.int32),
        text=source,
        token_offsets=np.zeros((0, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(0, np.float32),
    )
    return judge(problem, completion, sandbox, JudgeSettings(extraction="raw"))


def behaviour(source: str, argument_types: str) -> list[str]:
    """What a function does on the probes: for mutants of known programs only."""
    namespace: dict = {}
    exec(source, namespace)
    found = []
    for arguments in [*probes(argument_types), *probes(argument_types)]:
        try:
            found.append(repr(namespace["f"](*arguments)))
        except Exception as error:
            found.append(type(error).__name__)
    return found


def test_a_seed_gives_the_same_records_on_every_python(problems):
    text = json.dumps([asdict(problem) for problem in problems], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "90ebe9f6fe9ab6165abe2e37a4f7bc34c1eeeafadb1c675492df13508cbad721"
    )


def test_a_problem_is_a_sentence_with_tests(load_mini_split):
    problem = load_mini_split("test")[3]
    assert problem.id == "mini_programs/0/test/000003"
    assert problem.kind == "call"
    assert problem.prompt.startswith("Write a function f(")
    assert problem.tags["difficulty"] in LEVELS
    assert {test.function for test in problem.tests} == {"f"}


def test_no_specification_and_no_behaviour_is_in_two_splits(load_mini_split):
    for key in (lambda p: p.prompt, lambda p: p.columns["behaviour"]):
        train, validation, test = (set(map(key, load_mini_split(s))) for s in SPLITS)
        assert not (train & validation or train & test or validation & test)


def test_the_split_follows_from_the_behaviour_whatever_the_seed(load_mini_split):
    for split in SPLITS:
        for problem in load_mini_split(split):
            assert split_of_text(str(problem.columns["behaviour"])) == split


def test_no_specification_repeats(problems):
    assert len({problem.prompt for problem in problems}) == len(problems)


def test_references_and_idiomatic_programs_pass(problems, sandbox):
    for problem in problems[::9]:
        for source in filter(None, [problem.reference, problem.columns["idiomatic"]]):
            verdict = verdict_on(problem, str(source), sandbox)
            assert verdict.is_correct, (problem.prompt, source, verdict.detail)
            assert verdict.num_tests == NUM_TESTS


def test_careless_programs_fail_unless_they_are_the_reference(problems, sandbox):
    careless = [p for p in problems if p.columns["careless"] != p.reference]
    assert 0.5 < len(careless) / len(problems) < 0.8
    for problem in careless[::9]:
        source = str(problem.columns["careless"])
        assert not verdict_on(problem, source, sandbox).is_correct


def test_tests_ask_for_different_values(problems):
    for problem in problems:
        values = {repr(test.expected) for test in problem.tests}
        assert len(values) >= (2 if values <= {"True", "False"} else 4)


def test_single_fault_mutants_fail(problems, sandbox):
    failed = survived = 0
    for problem in problems[::6]:
        types = str(problem.columns["behaviour"]).split("/")[0]
        right = behaviour(problem.reference, types)
        for mutant in mutants_of(problem.reference, problem.id, 3):
            if behaviour(mutant.source, types) == right:
                continue  # it does the same
            if verdict_on(problem, mutant.source, sandbox).is_correct:
                survived += 1
            else:
                failed += 1
    assert failed > 120
    assert failed / (failed + survived) >= 0.95


def test_hints_come_in_three_tiers_each_cumulative(problems):
    for problem in problems:
        tiers = list(problem.hint_tiers)
        assert len(tiers) == len(problem.hints)
        assert list(dict.fromkeys(tiers)) == TIERS == sorted(TIERS)
        assert tiers == sorted(tiers)
        pairs = list(zip(tiers, problem.hints, strict=True))
        for (tier, hint), (next_tier, stronger) in zip(pairs, pairs[1:], strict=False):
            if tier == next_tier:
                assert stronger.startswith(hint + "\n")


def test_abstract_tiers_hold_no_line_of_the_solution(problems):
    for problem in problems:
        lines = {line.strip() for line in problem.reference.split("\n")}
        # What is English as well: a step may say what is returned.
        steps = {line for line in lines if not line.startswith(("return", "else"))}
        told = {"knowledge": lines, "planning": steps, "solution": set()}
        for tier, hint in zip(problem.hint_tiers, problem.hints, strict=True):
            assert not [line for line in told[tier] if line in hint]


def test_the_strongest_hint_is_the_reference_but_for_its_last_line(problems):
    for problem in problems:
        code = problem.hints[-1].removeprefix("Solution:\n")
        assert problem.reference.startswith(code + "\n")
        assert "\n" not in problem.reference[len(code) + 1 :]
