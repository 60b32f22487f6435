import pytest

from jaxgrpo.host.judge import ERROR_CLASSES
from jaxgrpo.host.judge.batches import Attempt, results_in_batches
from jaxgrpo.host.judge.results import shown, verdict_of
from jaxgrpo.host.records import Limits, TestResult, VerdictStatus

OK = TestResult(status="OK", error_class="passed")
WRONG = TestResult(status="WA", error_class="wrong_answer")
LONG = TestResult(status="OK", error_class="passed", cpu_s=0.5)
SLOW = TestResult(status="TLE", error_class="timeout", cpu_s=2.0)
ASLEEP = TestResult(status="TLE", error_class="timeout", cpu_s=0.1)
CRASHED = TestResult(status="RE", error_class="crash")
LIMITS = Limits(cpu_s=2.0)
LOST = TestResult(status="INFRA", error_class="infra", detail="no disk")


def test_all_passed():
    verdict = verdict_of([OK, OK], 2)
    assert (verdict.status, verdict.error_class) == ("OK", "passed")
    assert (verdict.num_passed, verdict.num_tests) == (2, 2)


def test_first_failure_names_the_verdict():
    verdict = verdict_of([OK, SLOW, WRONG], 3)
    assert (verdict.status, verdict.error_class) == ("TLE", "timeout")
    assert (verdict.num_passed, verdict.num_tests) == (1, 3)


def test_one_undecided_test_decides_nothing():
    verdict = verdict_of([OK, WRONG, LOST], 3)
    assert (verdict.status, verdict.detail) == ("INFRA", "no disk")


def test_no_tests_are_never_a_pass():
    verdict = verdict_of([], 0)
    assert (verdict.status, verdict.error_class) == ("INFRA", "no_tests")


@pytest.mark.parametrize(
    ("results", "num_tests"), [([], 1), ([OK], 2), ([OK] * 3, 2), ([WRONG] * 3, 2)]
)
def test_missing_results_are_never_a_pass(results: list[TestResult], num_tests: int):
    verdict = verdict_of(results, num_tests)
    assert (verdict.status, verdict.error_class) == ("INFRA", "infra")
    assert f"of {num_tests} tests" in verdict.detail


def test_left_out_tests_count_as_not_passed():
    verdict = verdict_of([OK, WRONG], 5)
    assert (verdict.status, verdict.num_passed, verdict.num_tests) == ("WA", 1, 5)


def test_every_class_begins_with_its_status():
    statuses = set(VerdictStatus.__args__)
    assert {text.split(":")[0] for text in ERROR_CLASSES.values()} == statuses


def test_shown_value_is_short_whatever_it_is():
    assert shown("a" * 10**6).startswith("'aaa")
    assert len(shown("a" * 10**6)) < 600
    assert "too many digits" in shown([10**5000])


# Batches


def results_of(tests: str, *, stops: bool = False) -> tuple[str, list[int]]:
    """Runs imagined tests, a letter each; gives statuses, and where processes began.

    `o` passes, `w` is wrong, `t` takes its time and the process down; `T` only if it
    was not the first in it.
    """
    starts: list[int] = []

    def attempt(start: int) -> Attempt:
        starts.append(start)
        done: list[TestResult] = []
        for place, letter in enumerate(tests[start:]):
            if letter == "t" or (letter == "T" and place > 0):
                return Attempt(done, SLOW, True)
            done.append(WRONG if letter == "w" else LONG)
        return Attempt(done, None, True)

    results = results_in_batches(len(tests), attempt, LIMITS, stops_at_failure=stops)
    letters = {"OK": "o", "WA": "w", "TLE": "t"}
    return "".join(letters[result.status] for result in results), starts


@pytest.mark.parametrize(
    ("tests", "results", "starts"),
    [
        ("", "", []),
        ("oow", "oow", [0]),
        ("oTo", "ooo", [0, 1]),
        ("oto", "oto", [0, 1, 2]),
        ("to", "to", [0, 1]),
        ("TTT", "ooo", [0, 1, 2]),
        ("ootoot", "ootoot", [0, 2, 3, 5]),
        ("ttto", "ttt", [0, 1, 2]),
    ],
)
def test_test_is_condemned_in_a_process_of_its_own_only(
    tests: str, results: str, starts: list[int]
):
    assert results_of(tests) == (results, starts)


@pytest.mark.parametrize(
    ("tests", "results"), [("owow", "ow"), ("ooto", "oot"), ("oTo", "ooo")]
)
def test_nothing_runs_after_the_first_failure_if_so_asked(tests: str, results: str):
    assert results_of(tests, stops=True)[0] == results


def first_starts(done: list[TestResult], end: TestResult) -> list[int]:
    """Where processes begin, if each comes back from `done` and then ends."""
    starts: list[int] = []

    def attempt(start: int) -> Attempt:
        starts.append(start)
        return Attempt(done if len(starts) == 1 else [], end, True)

    results_in_batches(9, attempt, LIMITS, stops_at_failure=False)
    return starts[:2]


def test_tests_before_are_blamed_only_for_what_they_used():
    assert first_starts([LONG], SLOW) == [0, 1]  # the second one runs again
    assert first_starts([OK], SLOW) == [0, 2]  # it ran out of time by itself
    assert first_starts([OK], CRASHED) == [0, 1]  # whoever broke it


def test_sleeping_program_is_not_waited_for_again():
    assert first_starts([], ASLEEP) == [0]
    assert first_starts([], SLOW) == [0, 1]


def test_program_that_does_not_load_is_tried_once():
    calls: list[int] = []

    def attempt(start: int) -> Attempt:
        calls.append(start)
        return Attempt([], SLOW, False)

    results = results_in_batches(4, attempt, LIMITS, stops_at_failure=False)
    assert (results, calls) == ([SLOW] * 4, [0])


def test_lost_process_ends_the_judging():
    def attempt(start: int) -> Attempt:
        return Attempt([], LOST, False)

    results = results_in_batches(4, attempt, LIMITS, stops_at_failure=False)
    assert verdict_of(results, 4).status == "INFRA"
