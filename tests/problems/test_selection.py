from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.pass_rates import PassRate
from jaxgrpo.problems.selection import KeepRules, KeptProblems, class_of, select


def rate_of(name: str, passed: int, judged: int = 8) -> PassRate:
    return PassRate(
        problem_id=name,
        num_judged=judged,
        num_passed=passed,
        num_cut=0,
        mean_tokens=1.0,
    )


@pytest.mark.parametrize(
    ("passed", "judged", "expected"),
    [
        (8, 8, "solved"),
        (7, 8, "partly solved"),
        (1, 8, "partly solved"),
        (0, 8, "unsolved"),
        (1, 1, "solved"),
        (0, 0, "unmeasured"),
    ],
)
def test_class_is_told_by_the_judged_samples(passed: int, judged: int, expected: str):
    assert class_of(rate_of("p", passed, judged)) == expected


def test_problem_without_a_rate_is_unmeasured():
    assert class_of(None) == "unmeasured"


NAMES = [f"p{i}" for i in range(4000)]
PASSED = {name: i % 9 for i, name in enumerate(NAMES)}
RATES = {name: rate_of(name, passed) for name, passed in PASSED.items()}


def kept_by(rules: KeepRules, names: list[str] = NAMES) -> set[str]:
    return {names[place] for place in select(names, RATES, rules).places}


def test_the_paper_s_rules_are_the_default():
    kept = kept_by(KeepRules())
    by_passed = Counter(PASSED[name] for name in kept)
    all_of = Counter(PASSED.values())
    assert by_passed[8] == 0
    assert by_passed[0] == all_of[0]
    for passed in range(1, 8):
        # A fair coin each: within five standard deviations.
        spread = 5 * (all_of[passed] / 4) ** 0.5
        assert abs(by_passed[passed] - all_of[passed] / 2) < spread


def test_counts_are_told():
    selection = select(
        ["a", "b", "c"],
        {"a": rate_of("a", 8), "b": rate_of("b", 0)},
        KeepRules(),
    )
    assert selection.places == (1, 2)
    assert selection.text() == (
        "kept 2 of 3 problems: solved 0 of 1, unsolved 1 of 1, unmeasured 1 of 1"
    )


def test_unsolved_problems_may_be_limited():
    rules = KeepRules(max_unsolved=10)
    kept = kept_by(rules)
    assert sum(PASSED[name] == 0 for name in kept) == 10
    # The others are as if there were no limit.
    assert {n for n in kept_by(KeepRules()) if PASSED[n]} == {
        n for n in kept if PASSED[n]
    }


@given(st.permutations(NAMES[:60]))
def test_what_is_kept_does_not_depend_on_order(names: list[str]):
    for rules in (KeepRules(), KeepRules(max_unsolved=2)):
        assert kept_by(rules, names) == kept_by(rules, NAMES[:60])
        places = select(names, RATES, rules).places
        assert list(places) == sorted(places)


@given(st.floats(0, 1), st.floats(0, 1))
def test_larger_share_keeps_what_a_smaller_one_kept(one: float, other: float):
    low, high = sorted((one, other))
    small, large = KeepRules(partly_solved=low), KeepRules(partly_solved=high)
    names = NAMES[:300]
    assert kept_by(small, names) <= kept_by(large, names)


def test_shares_of_nothing_and_of_everything():
    nothing = KeepRules(solved=0.0, partly_solved=0.0, unsolved=0.0)
    everything = KeepRules(solved=1.0, partly_solved=1.0, unsolved=1.0)
    assert kept_by(nothing) == set()
    assert kept_by(everything) == set(NAMES)


def test_kept_problems_are_a_sequence_of_the_others():
    problems = [
        Problem(id=name, kind="output", prompt="", reference="") for name in "abcde"
    ]
    kept = KeptProblems(problems, (1, 3, 4))
    assert [problem.id for problem in kept] == ["b", "d", "e"]
    assert (kept[-1].id, kept[0].id) == ("e", "b")
    assert [problem.id for problem in kept[1:]] == ["d", "e"]
    with pytest.raises(IndexError):
        kept[3]
