from jaxgrpo.host.records import Problem, Verdict
from jaxgrpo.host.verdict_cache import VerdictCache

PROBLEM = Problem(id="p", kind="output", prompt="", reference="5")
OTHER = Problem(id="q", kind="output", prompt="", reference="5")
RIGHT = Verdict(status="OK", error_class="exact")
WRONG = Verdict(status="WA", error_class="wrong_value")
INFRA = Verdict(status="INFRA", error_class="infra")


def test_verdict_is_known_for_its_problem_and_text_only():
    cache = VerdictCache(max_bytes=100)
    cache.put(PROBLEM, "5", RIGHT, 10)
    assert cache.get(PROBLEM, "5") is RIGHT
    assert cache.get(PROBLEM, "6") is None
    assert cache.get(OTHER, "5") is None


def test_infrastructure_errors_are_forgotten():
    cache = VerdictCache(max_bytes=100)
    cache.put(PROBLEM, "5", INFRA, 10)
    assert cache.get(PROBLEM, "5") is None


def test_least_recently_used_makes_room():
    cache = VerdictCache(max_bytes=100)
    cache.put(PROBLEM, "1", WRONG, 40)
    cache.put(PROBLEM, "2", WRONG, 40)
    cache.get(PROBLEM, "1")
    cache.put(PROBLEM, "3", WRONG, 40)
    assert cache.get(PROBLEM, "1") is WRONG
    assert cache.get(PROBLEM, "2") is None
    assert cache.get(PROBLEM, "3") is WRONG


def test_replaced_verdict_does_not_count_twice():
    cache = VerdictCache(max_bytes=100)
    cache.put(PROBLEM, "other", WRONG, 40)
    for _ in range(10):
        cache.put(PROBLEM, "5", RIGHT, 40)
    assert cache.get(PROBLEM, "other") is WRONG


def test_verdict_larger_than_the_cache_leaves_it_alone():
    cache = VerdictCache(max_bytes=100)
    cache.put(PROBLEM, "5", RIGHT, 40)
    cache.put(PROBLEM, "huge", WRONG, 101)
    assert cache.get(PROBLEM, "5") is RIGHT
    assert cache.get(PROBLEM, "huge") is None
