import math
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host import stored_tests
from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import judge
from jaxgrpo.host.messages import Job, SandboxSettings
from jaxgrpo.host.records import Problem, StoredTests, Test, Verdict
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.stored_tests import encoded_test, with_tests, write_tests
from jaxgrpo.host.worker import LazySandbox, scores_of_job

CALL = Test(
    kind="call",
    function="f",
    arguments=((1, 2.5), {3: {None, "ä\n\udc80"}}, b"\x00"),
    keywords={"key": [True, 1j]},
    expected={"a": (1, -0.0, math.inf, 2**70)},
    compare="exact",
)
STDIN = Test(kind="stdin", stdin="1 2\r\n", expected="3\n", checker="def check(): 0")
ASSERT = Test(kind="assert", source="assert f(1) == 2", function="f", is_inside=True)


def stored(path: Path, *groups: tuple[Test, ...]) -> list[StoredTests]:
    with path.open("wb") as file:
        return [
            write_tests(file, path, [encoded_test(test) for test in tests])
            for tests in groups
        ]


def problem(tests: tuple[Test, ...] | StoredTests) -> Problem:
    return Problem(id="p", kind="call", prompt="", reference="", tests=tests)


def test_tests_come_back_as_they_were(tmp_path):
    groups = [(CALL,), (STDIN, STDIN), (ASSERT,)]
    for tests, place in zip(groups, stored(tmp_path / "t", *groups), strict=True):
        assert stored_tests.tests_of(problem(place)) == tests
        assert with_tests(problem(place)).tests == tests
        assert len(place) == len(tests)


ATOMS = (st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.floats())


def containers(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner)


PLAIN = st.recursive(st.one_of(*ATOMS), containers, max_leaves=8)


@given(PLAIN)
def test_any_plain_value_comes_back_with_its_type(tmp_path_factory, value):
    test = Test(kind="call", function="f", arguments=(value,), expected=value)
    (place,) = stored(tmp_path_factory.getbasetemp() / "t", (test,))
    (found,) = stored_tests.tests_of(problem(place))
    assert repr(found) == repr(test)


def test_tests_in_memory_are_left_alone():
    inside = problem((CALL,))
    assert stored_tests.tests_of(inside) == (CALL,)
    assert with_tests(inside) is inside


def test_a_reference_is_small_and_can_be_sent(tmp_path):
    big = Test(kind="stdin", stdin="x" * 10**6, expected="y" * 10**6)
    (place,) = stored(tmp_path / "t", (big,) * 3)
    assert len(pickle.dumps(place)) < 500
    assert pickle.loads(pickle.dumps(place)) == place


def test_what_is_not_plain_is_refused():
    with pytest.raises(ValueError, match="a value of type object is not plain data"):
        encoded_test(Test(kind="call", function="f", arguments=(object(),)))


def deep(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


def test_what_can_be_written_can_be_read(tmp_path):
    """Values nest to a limit, and a test is itself some levels deep."""
    for levels in range(90, 101):
        test = Test(kind="call", function="f", expected=deep(levels))
        try:
            encoded_test(test)
        except ValueError:
            break
        (place,) = stored(tmp_path / "t", (test,))
        assert stored_tests.tests_of(problem(place)) == (test,)
    else:
        raise AssertionError("some depth is too much")


def test_a_changed_file_is_refused(tmp_path):
    (place,) = stored(tmp_path / "t", (CALL,))
    content = bytearray((tmp_path / "t").read_bytes())
    content[10] ^= 1
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match="are not the tests that were written there"):
        stored_tests.tests_of(problem(place))


def test_a_lost_file_is_told(tmp_path):
    (place,) = stored(tmp_path / "t", (CALL,))
    (tmp_path / "t").unlink()
    with pytest.raises(ValueError, match="the tests cannot be read"):
        stored_tests.tests_of(problem(place))


# Judged


DOUBLE = Test(kind="call", function="double", arguments=(2,), expected=4)
RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"
WRONG = RIGHT.replace("2", "3")


def test_the_judge_reads_stored_tests(tmp_path):
    (place,) = stored(tmp_path / "t", (DOUBLE, DOUBLE))
    with Sandbox() as sandbox:
        verdict = judge(problem(place), completion_of("p", RIGHT), sandbox)
    assert verdict.is_correct and verdict.num_tests == 2


@pytest.fixture
def sandbox():
    lazy = LazySandbox(SandboxSettings())
    yield lazy
    lazy.close()


def judged(place: StoredTests, sandbox: LazySandbox) -> list[Verdict]:
    """What a worker finds of a right completion and of a wrong one."""
    job = Job(
        id=0,
        problem=problem(place),
        completions=(completion_of("p", RIGHT), completion_of("p", WRONG)),
        verdicts=(None, None),
    )
    scores = scores_of_job(job, lambda judged: {}, sandbox)
    verdicts = [score.verdict for score in scores if score.verdict is not None]
    assert len(verdicts) == 2
    return verdicts


def test_a_worker_reads_stored_tests(tmp_path, sandbox):
    (place,) = stored(tmp_path / "t", (DOUBLE,))
    verdicts = judged(place, sandbox)
    assert [verdict.status for verdict in verdicts] == ["OK", "WA"]


def test_lost_tests_abstain_and_say_why(tmp_path, sandbox):
    (place,) = stored(tmp_path / "t", (DOUBLE,))
    (tmp_path / "t").unlink()
    verdicts = judged(place, sandbox)
    assert [verdict.status for verdict in verdicts] == ["INFRA", "INFRA"]
    assert "the tests cannot be read" in verdicts[0].detail
