import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from jaxgrpo.host.records import Call, Limits, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.trace import (
    Divergence,
    any_boundary,
    any_divergence,
    divergences,
    earliest,
    last,
    line_starts,
    result_boundary,
    statement_span,
)
from jaxgrpo.host.trace_records import Trace

from .faults import PROGRAMS, faulty, renamed

Traced = Callable[..., Trace]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(level="B") as opened:
        yield opened


@pytest.fixture(scope="module")
def traced(sandbox: Sandbox) -> Traced:
    """Traces a call of `f`, or the whole program where it is not given arguments."""

    def trace(source: str, *arguments: object, **limits: float) -> Trace:
        calls = (Call(function="f", arguments=arguments),) if arguments else ()
        chosen = replace(Limits(cpu_s=0.3), **limits)
        program = Program(source=source, mode="trace", calls=calls, limits=chosen)
        (found,) = sandbox.run(program).traces
        return found

    return trace


def text_of(found: Divergence, source: str) -> str:
    span = statement_span(found.event.statement, line_starts(source))
    return source[span.start : span.end]


# The example of the paper.


def test_wrong_comparison_diverges_at_its_third_execution_in_the_outcome(
    traced: Traced,
):
    source, _ = PROGRAMS["longest_increasing"]
    wrong = source.replace("nums[i] > nums[j]", "nums[i] >= nums[j]")
    found = earliest(traced(wrong, [1, 3, 3, 5]), traced(source, [1, 3, 3, 5]))
    assert found is not None
    assert (found.execution, found.cause) == (3, "branch")
    assert (found.found, found.expected) == ("True", "False")
    assert text_of(found, wrong) == "if nums[i] >= nums[j]"


# Equivalent programs do not diverge.


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_not_diverge_from_itself(name: str, traced: Traced):
    source, inputs = PROGRAMS[name]
    for arguments in inputs:
        trace = traced(source, *arguments)
        assert trace.events
        assert divergences(trace, trace) == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_names_are_no_divergence(name: str, seed: int, traced: Traced):
    source, inputs = PROGRAMS[name]
    other = renamed(source, random.Random(seed))
    for arguments in inputs:
        assert earliest(traced(other, *arguments), traced(source, *arguments)) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = x; b = 1; c = [x]\n    return a", "c = [x]; b = 1; a = x\n    return a"),
        (
            "a = 0\n    b = 0\n    for i in range(x):\n        a += i\n        b -= i\n"
            "    return a, b",
            "b = 0\n    a = 0\n    for i in range(x):\n        b -= i\n        a += i\n"
            "    return a, b",
        ),
        (
            "a = b = 0\n    if x > 1: a = 1\n    if x > 9: b = 1\n    return a, b",
            "a = b = 0\n    if x > 9: b = 1\n    if x > 1: a = 1\n    return a, b",
        ),
        ("a = g(x); b = h(x)\n    return a, b", "b = h(x); a = g(x)\n    return a, b"),
        ("a = g(x); b = g(2)\n    return a, b", "b = g(2); a = g(x)\n    return a, b"),
        (
            "a = []; b = a; b.append(x)\n    return a",
            "a = []; a.append(x)\n    return a",
        ),
        ("a = x + 1\n    return a", "t = x\n    a = t + 1\n    return a"),
    ],
)  # fmt: skip
def test_other_order_and_helping_variables_are_no_divergence(
    one: str, other: str, traced: Traced
):
    helpers = "def g(n): return n * 2\ndef h(n): return n * 3\n"
    first, second = (
        traced(f"{helpers}def f(x):\n    {body}\n", 3) for body in (one, other)
    )
    assert divergences(first, second) == ()
    assert divergences(second, first) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 0; b = [a]; a = x", "a = 0.0; b = [a]; a = x"),
        ("a = False\n    if x > 1: a = True", "a = 0\n    if x > 1: a = 1"),
        ("a = x * 0.0; b = -a", "a = -x * 0.0; b = -a"),
        ("a = {'k': (x, True)}", "a = {'k': (float(x), 1)}"),
        ("a = [0] * 99; a[50] = x", "a = [0.0] * 99; a[50] = x"),
        ("return len([x == 3])", "a = x == 3; return len([a])"),
    ],
)
def test_equal_values_of_other_types_are_no_divergence(
    one: str, other: str, traced: Traced
):
    first, second = (traced(f"def f(x):\n    {body}\n", 3) for body in (one, other))
    assert divergences(first, second) == divergences(second, first) == ()


def test_the_type_of_the_result_counts_where_values_are_judged(traced: Traced):
    right, wrong = "def f(x): return x\n", "def f(x): return float(x)\n"
    found = earliest(traced(wrong, 1), traced(right, 1))
    assert found is not None and (found.found, found.expected) == ("1.0", "1")
    end = "assert f(1) == 1"
    assert divergences(traced(wrong + end), traced(right + end)) == ()
    helped = "def g(x): return {}\ndef f(x): return g(x) > 0\n"
    first, second = (traced(helped.format(text), 1) for text in ("x", "float(x)"))
    assert divergences(first, second) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Helpers with other names that are called in another order.
        (
            "def g(n): return n * 2\ndef h(n): return n * 3\n"
            "def f(x):\n    a = g(x); b = h(x)\n    return a, b\n",
            "def u(n): return n * 3\ndef v(n): return n * 2\n"
            "def f(x):\n    b = u(x); a = v(x)\n    return a, b\n",
        ),
        (
            "def g(n): return -n\ndef h(n, m): return n * m\n"
            "def f(x):\n    a = g(x); b = h(x, 2)\n    return a, b\n",
            "def u(n, m): return n * m\ndef v(n): return -n\n"
            "def f(x):\n    b = u(x, 2); a = v(x)\n    return a, b\n",
        ),
        # Likewise methods, and their class.
        (
            "class A:\n    def p(self): return 1\n    def q(self): return 2\n"
            "def f(x):\n    a = A()\n    return a.p() + a.q() + x\n",
            "class B:\n    def z(self): return 2\n    def y(self): return 1\n"
            "def f(x):\n    b = B()\n    return b.z() + b.y() + x\n",
        ),
        # Attributes.
        (
            "class A:\n    def __init__(self, n): self.x = n; self.moves = [0, 'x=1']\n"
            "    def add(self, y):\n        self.x += y\n        self.moves.append(y)\n"
            "        return self\n"
            "def f(x):\n    a = [A(x).add(2), A(5)]\n    return a[0].add(3).x\n",
            "class B:\n    def __init__(self, n): self.n = n; self.added = [0, 'x=1']\n"
            "    def add(self, y):\n        self.n += y\n        self.added.append(y)\n"
            "        return self\n"
            "def f(x):\n    a = [B(x).add(2), B(5)]\n    return a[0].add(3).n\n",
        ),
        (
            "class N:\n    def __init__(self, v, t): self.v = v; self.tail = t\n"
            "def f(x):\n    n = None\n    for i in range(x): n = N(i, n)\n"
            "    return n.v\n",
            "class N:\n    def __init__(self, v, t): self.item = v; self.next = t\n"
            "def f(x):\n    n = None\n    for i in range(x): n = N(i, n)\n"
            "    return n.item\n",
        ),
        # Arguments by name.
        (
            "def g(a, b): return a - b\ndef f(x): return g(a=x, b=1)\n",
            "def g(b, a): return a - b\ndef f(x): return g(a=x, b=1)\n",
        ),
        # The opposite test, with the branches exchanged.
        (
            "def f(x):\n    t = 0\n    for i in range(x):\n"
            "        if i % 2 == 0: t += i\n        else: t -= 2 * i\n    return t\n",
            "def f(x):\n    t = 0\n    for i in range(x):\n"
            "        if i % 2 != 0: t -= 2 * i\n        else: t += i\n    return t\n",
        ),
        (
            "def f(x):\n    t = 0\n    for i in range(x):\n"
            "        if i % 2: t += i\n    return t\n",
            "def f(x):\n    t = 0\n    for i in range(x):\n"
            "        if not i % 2: continue\n        t += i\n    return t\n",
        ),
        # To stop looking once it is found.
        (
            "def f(x):\n    found = False; n = 0\n    for i in range(x):\n"
            "        if i == 1: found = True; break\n    n += 1\n    return found, n\n",
            "def f(x):\n    found = False; n = 0\n    for i in range(x):\n"
            "        if i == 1: found = True\n    n += 1\n    return found, n\n",
        ),
        (
            "def f(x):\n    t = []\n    for i in range(x):\n        known = False\n"
            "        for j in range(5):\n            if j == i: known = True; break\n"
            "        t.append(known)\n    return t\n",
            "def f(x):\n    t = []\n    for i in range(x):\n        known = False\n"
            "        for j in range(5):\n            if j == i: known = True\n"
            "        t.append(known)\n    return t\n",
        ),
    ],
)  # fmt: skip
def test_what_is_written_otherwise_and_does_the_same_is_no_divergence(
    one: str, other: str, traced: Traced
):
    first, second = traced(one, 3), traced(other, 3)
    assert divergences(first, second) == ()
    assert divergences(second, first) == ()


# One fault is found where it is.


def mutants() -> Iterator[tuple[str, str, int, tuple]]:
    """Reference, faulty program, line of the fault and an input."""
    generator = random.Random(0)
    for source, inputs in PROGRAMS.values():
        reference = "\n".join(source.strip().splitlines())
        for wrong, line in faulty(reference, generator):
            yield reference, wrong, line, generator.choice(inputs)


def is_failing(candidate: Trace, reference: Trace) -> bool:
    """Whether the results of the outermost calls differ."""

    def result(trace: Trace) -> list[str]:
        names = ("<return>", "<raise>")
        values = [v for e in trace.events if e.activation == 0 for v in e.values]
        return [text for name, text in values if name in names][-1:]

    return result(candidate) != result(reference)


@pytest.mark.parametrize("has_other_names", [False, True])
def test_nine_in_ten_faults_are_found_in_their_line(
    has_other_names: bool, traced: Traced
):
    references: dict[tuple, Trace] = {}
    outcomes: list[bool] = []
    for reference, wrong, line, arguments in mutants():
        key = reference, repr(arguments)
        if key not in references:
            references[key] = traced(reference_text(reference), *arguments)
        candidate = renamed(wrong, random.Random(line)) if has_other_names else wrong
        trace = traced(candidate, *arguments)
        if not is_failing(trace, references[key]):
            continue
        found = earliest(trace, references[key])
        place = found.event.statement if found else None
        outcomes.append(place is not None and place.line <= line <= place.end_line)
    assert len(outcomes) >= 50
    assert sum(outcomes) / len(outcomes) >= 0.9


def reference_text(source: str) -> str:
    """As the faulty programs are written, so that lines agree."""
    import ast

    return ast.unparse(ast.parse(source))


# Causes.


@pytest.mark.parametrize(
    ("wrong", "right", "cause", "text"),
    [
        ("a = x + 1\n    return a", "a = x + 2\n    return a", "value", "a = x + 1"),
        ("a = x; a += 0\n    return a", "a = x; a += 1\n    return a", "value",
         "a += 0"),
        ("return x", "return -x", "return", "return x"),
        ("if x: return 1", "if not x: return 1", "branch", "if x"),
        ("for i in range(x): pass", "for i in range(x + 1): pass", "branch",
         "for i in range(x)"),
        ("for i in range(x): pass", "for i in range(1, x): pass", "value",
         "for i in range(x)"),
        ("a = [1] * x\n    return a[x]", "a = [1] * x\n    return a[x - 1]",
         "exception", "return a[x]"),
        ("print('a', x)", "print('b', x)", "output", "print('a', x)"),
        ("assert x < 1", "assert x < 9", "branch", "assert x < 1"),
        ("return list(g(x))", "return list(g(x - 1))", "value", "return list(g(x))"),
        ("a = {}\n    a['k'] = x", "a = {}\n    a['j'] = x", "value", "a['k'] = x"),
        ("for i in range(x):\n        if i == 1: break\n        x += i",
         "for i in range(x):\n        if i == 1: continue\n        x += i", "jump",
         "break"),
        ("for i in range(x):\n        if i == 1: continue\n        x += i",
         "for i in range(x):\n        if i == 1: break\n        x += i", "jump",
         "continue"),
        ("t = 0\n    for i in range(x):\n        for j in range(x):\n"
         "            while True: break\n            if j: break\n"
         "            t += 1\n        t += i",
         "t = 0\n    for i in range(x):\n        for j in range(x):\n"
         "            while True: break\n            if j: pass\n"
         "            t += 1\n        t += i", "jump", "break"),
        ("if x != 3: y = 1\n    else: y = 2", "if x == 3: y = 1\n    else: y = 2",
         "branch", "if x != 3"),
    ],
)  # fmt: skip
def test_cause_and_statement(
    wrong: str, right: str, cause: str, text: str, traced: Traced
):
    helper = "def g(n):\n    for k in range(n):\n        yield k * 2\n"
    wrong_source = f"{helper}def f(x):\n    {wrong}\n"
    found = earliest(
        traced(wrong_source, 3), traced(f"{helper}def f(x):\n    {right}\n", 3)
    )
    assert found is not None
    assert (found.cause, text_of(found, wrong_source)) == (cause, text)


def test_wrong_argument_is_the_fault_of_the_statement_that_passes_it(traced: Traced):
    right = "def g(n):\n    return n\ndef f(x):\n    a = 1\n    return g(x)\n"
    wrong = right.replace("g(x)", "g(x + 1)")
    found = earliest(traced(wrong, 1), traced(right, 1))
    assert found is not None
    assert (found.cause, found.event.kind) == ("value", "call")
    assert text_of(found, wrong) == "return g(x + 1)"


def test_fault_at_an_attribute_of_another_name(traced: Traced):
    right = (
        "class A:\n    def __init__(self, x):\n        self.x = x\n        self.n = 0\n"
        "    def add(self, y):\n        self.x += y\n        self.n += 1\n"
        "def f(x):\n    a = A(x)\n    a.add(2)\n    return a.x * a.n\n"
    )
    other = right.replace(".x", ".total").replace(".n", ".count")
    assert divergences(traced(other, 1), traced(right, 1)) == ()
    wrong = other.replace("self.total += y", "self.total -= y")
    found = earliest(traced(wrong, 1), traced(right, 1))
    assert found is not None and text_of(found, wrong) == "self.total -= y"


def test_yielded_value(traced: Traced):
    right = "def f(x):\n    for i in range(x):\n        yield i\n"
    wrong = right.replace("yield i", "yield -i")
    (found, *_) = divergences(
        traced(wrong + "print(list(f(3)))"), traced(right + "print(list(f(3)))")
    )
    assert (found.cause, found.found, found.expected) == ("yield", "-1", "1")
    assert text_of(found, wrong) == "yield -i"


def test_output_may_come_in_other_pieces(traced: Traced):
    one = "print('a b')\nprint('c')"
    other = "print('a', end=' ')\nprint('b')\nimport sys\nsys.stdout.write('c\\n')"
    assert divergences(traced(one), traced(other)) == ()
    found = earliest(traced(other.replace("'b'", "'x'")), traced(one))
    assert found is not None
    assert (found.cause, found.event.statement.line) == ("output", 2)


def test_blanks_that_the_judge_does_not_count_are_no_divergence(traced: Traced):
    one = "print(1, 2)\nprint(3)"
    other = "for x in 1, 2:\n    print(x, end='  ')\nprint()\nprint(3, '\\n')"
    assert divergences(traced(one), traced(other)) == ()
    assert divergences(traced(other), traced(one)) == ()
    found = earliest(
        traced("print(1)\nprint()\nprint(2)"), traced("print(1)\nprint(2)")
    )
    assert found is not None and found.event.statement.line == 2
    found = earliest(traced("print(1, end='')\nprint(2)"), traced("print(1)\nprint(2)"))
    assert found is not None and found.event.statement.line == 2
    found = earliest(
        traced("print(1, end=' ')\nprint(2)"), traced("print(1)\nprint(2)")
    )
    assert found is not None and found.event.statement.line == 2


def test_output_behind_what_a_trace_leaves_out(traced: Traced):
    whole = "r = range(10 ** 9, 10 ** 9 + 500)\nprint(*r)\nprint(7)"
    pieces = whole.replace("print(*r)", "for x in r: print(x, end=' ')\nprint()")
    assert divergences(traced(pieces), traced(whole)) == ()
    assert divergences(traced(whole), traced(pieces)) == ()
    assert divergences(traced(whole), traced(whole)) == ()
    found = earliest(traced(whole.replace("print(7)", "print(8)")), traced(whole))
    assert found is not None
    assert (found.cause, found.event.statement.line) == ("output", 3)


# Which of them.


def test_last_and_any_are_divergences_too(traced: Traced):
    source, _ = PROGRAMS["longest_increasing"]
    wrong = source.replace("+ 1)", "+ 2)")
    candidate, reference = (traced(s, [1, 2, 3]) for s in (wrong, source))
    found = divergences(candidate, reference)
    assert len(found) > 2
    assert [one.step for one in found] == sorted(one.step for one in found)
    assert earliest(candidate, reference) == found[0]
    assert last(candidate, reference) == found[-1]
    drawn = {
        any_divergence(candidate, reference, random.Random(seed)) for seed in range(50)
    }
    assert drawn <= set(found)
    assert len(drawn) > 1


def test_nothing_is_drawn_where_nothing_diverges(traced: Traced):
    trace = traced("x = 1")
    assert earliest(trace, trace) is None
    assert last(trace, trace) is None
    assert any_divergence(trace, trace, random.Random(0)) is None


def test_boundary_is_drawn_from_what_was_executed(traced: Traced):
    trace = traced("x = 1\nif x: y = 2\nelse: z = 3")
    lines = {
        event.statement.line
        for seed in range(50)
        if (event := any_boundary(trace, random.Random(seed)))
    }
    assert lines == {1, 2}
    assert any_boundary(Trace(), random.Random(0)) is None


def test_result_boundary_is_the_last_return_or_output(traced: Traced):
    source = "def g(): return 5\ndef f(x):\n    y = g()\n    return y\n"
    event = result_boundary(traced(source, 1))
    assert event is not None
    assert event.statement.line == 4
    event = result_boundary(traced("x = 1\nprint(x)\ny = 2"))
    assert event is not None
    assert event.statement.line == 2
    assert result_boundary(Trace()) is None


# Traces that are not whole.


def test_what_lies_beyond_a_cut_is_not_compared(traced: Traced):
    source = "def f(x):\n    a = 0\n    for i in range(x): a += i\n    return a\n"
    whole = traced(source, 30)
    cut = traced(source, 30, trace_events=20)
    assert cut.cut == "events"
    assert divergences(whole, cut) == ()
    assert divergences(cut, whole) == ()
    wrong = traced(source.replace("a = 0", "a = 1"), 30)
    found = earliest(wrong, cut)
    assert found is not None
    assert found.event.statement.line == 2


def test_endless_candidate_diverges_where_it_stays(traced: Traced):
    right = "def f(x):\n    while x > 0: x -= 1\n    return x\n"
    wrong = right.replace("x -= 1", "x -= 0")
    found = earliest(traced(wrong, 3), traced(right, 3))
    assert found is not None
    assert text_of(found, wrong) == "x -= 0"


def test_empty_traces_do_not_diverge(traced: Traced):
    trace = traced("x = 1")
    assert divergences(Trace(), trace) == ()
    assert divergences(Trace(), Trace()) == ()
