import math

import pytest

from jaxgrpo.host.records import Call, Execution, Limits, Program
from jaxgrpo.host.sandbox import Sandbox

SHORT = Limits(cpu_s=0.3, wall_s=5.0)
IDLE = Limits(cpu_s=0.3, wall_s=0.5)


def run(
    sandbox: Sandbox, source: str, *calls: tuple, limits: Limits = SHORT
) -> Execution:
    made = tuple(Call(function=name, arguments=tuple(rest)) for name, *rest in calls)
    program = Program(source=source, mode="calls", calls=made, limits=limits)
    return sandbox.run(program)


def statuses(execution: Execution) -> list[str]:
    return [result.status for result in execution.results]


def values(execution: Execution) -> list[object]:
    return [result.value for result in execution.results]


def test_each_call_gives_one_value(sandbox: Sandbox):
    execution = run(sandbox, "def f(a, b): return a + b", ("f", 1, 2), ("f", "a", "b"))
    assert execution.status == "OK"
    assert values(execution) == [3, "ab"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**63),
        10**1000,
        0.1,
        -0.0,
        math.inf,
        1 + 2j,
        "é\ud800\0",
        b"\0\xff",
        [1, [2, []]],
        (1, (2,), ()),
        {1, "a"},
        frozenset({3}),
        {"a": 1, (1, 2): [None], 3: {}},
    ],
    ids=repr,
)
def test_values_come_back_with_their_types(value: object, plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "def f(x): return x", ("f", value))
    assert repr(values(execution)) == repr([value])


def test_top_level_runs_once_for_all_calls(plain_sandbox: Sandbox):
    source = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    assert values(run(plain_sandbox, source, ("f",), ("f",))) == [1, 2]


def test_exception_in_one_call_does_not_end_the_others(sandbox: Sandbox):
    execution = run(sandbox, "def f(x):\n    return 1 // x", ("f", 0), ("f", 1))
    assert (execution.status, statuses(execution)) == ("OK", ["RE", "OK"])
    exception = execution.results[0].exception
    assert exception is not None
    assert (exception.type_name, exception.line) == ("ZeroDivisionError", 2)


def test_memory_error_in_one_call_does_not_end_the_others(plain_sandbox: Sandbox):
    execution = run(
        plain_sandbox, "def f(n): return len(bytes(n))", ("f", 1 << 40), ("f", 1)
    )
    assert statuses(execution) == ["MLE", "OK"]


def test_output_is_told_by_call(plain_sandbox: Sandbox):
    source = "print('top')\ndef f(x): print(x)"
    execution = run(plain_sandbox, source, ("f", 1), ("f", 2))
    assert [result.stdout for result in execution.results] == ["1\n", "2\n"]
    assert execution.stdout == "top\n1\n2\n"


def test_arguments_are_fresh_for_every_call(plain_sandbox: Sandbox):
    shared = [1]
    source = "def f(x):\n    x.append(2)\n    return x"
    assert values(run(plain_sandbox, source, ("f", shared), ("f", shared))) == [
        [1, 2],
        [1, 2],
    ]
    assert shared == [1]


def test_method_of_a_class_is_called_on_a_fresh_instance(plain_sandbox: Sandbox):
    source = (
        "class Solution:\n    def __init__(self): self.n = 0\n"
        "    def f(self, x):\n        self.n += x\n        return self.n"
    )
    calls = ("Solution.f", 1), ("Solution.f", 2)
    assert values(run(plain_sandbox, source, *calls)) == [1, 2]


def test_missing_function_is_a_name_error(plain_sandbox: Sandbox):
    (result,) = run(plain_sandbox, "def g(): pass", ("f",)).results
    assert result.exception is not None
    assert (result.status, result.exception.type_name) == ("RE", "NameError")


def test_program_may_read_its_input(plain_sandbox: Sandbox):
    program = Program(
        source="x = input()\ndef f(): return x",
        mode="calls",
        stdin="a",
        calls=(Call(function="f"),),
    )
    assert values(plain_sandbox.run(program)) == ["a"]


def test_no_calls_give_no_results(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "x = 1")
    assert (execution.status, execution.results) == ("OK", ())


@pytest.mark.parametrize(("source", "status"), [("x =", "CE"), ("exit()", "RE")])
def test_program_that_does_not_load_fails_without_calls_too(
    source: str, status: str, plain_sandbox: Sandbox
):
    assert run(plain_sandbox, source).status == status


def test_exceptions_of_calls_do_not_fill_standard_error(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "def f(): return f()", ("f",), ("f",))
    assert execution.stderr == ""


@pytest.mark.parametrize(
    ("source", "status", "type_name"),
    [("x =", "CE", "SyntaxError"), ("1 / 0", "RE", "ZeroDivisionError")],
)
def test_program_that_does_not_load_fails_every_call(
    source: str, status: str, type_name: str, plain_sandbox: Sandbox
):
    execution = run(plain_sandbox, source, ("f",), ("f",))
    assert (execution.status, statuses(execution)) == (status, [status, status])
    exception = execution.results[1].exception
    assert exception is not None
    assert exception.type_name == type_name


def test_loop_in_one_call_ends_it_and_those_after_it(sandbox: Sandbox):
    source = "def f(x):\n    while x: pass\n    return x"
    limits = Limits(cpu_s=0.1, wall_s=5.0)
    execution = run(sandbox, source, ("f", 0), ("f", 1), ("f", 0), limits=limits)
    assert (execution.status, statuses(execution)) == ("TLE", ["OK", "TLE", "TLE"])


def test_limits_hold_for_all_calls_together(plain_sandbox: Sandbox):
    source = (
        "import time\ndef f():\n    end = time.process_time() + 0.1\n"
        "    while time.process_time() < end: pass"
    )
    execution = run(plain_sandbox, source, *[("f",)] * 5)
    assert statuses(execution)[0] == "OK"
    assert statuses(execution)[-1] == "TLE"


def test_output_flood_in_one_call_is_its_own_failure(plain_sandbox: Sandbox):
    source = "def f(n): print('a' * n)"
    limits = Limits(cpu_s=0.5, output_bytes=1000)
    execution = run(plain_sandbox, source, ("f", 10), ("f", 10**6), limits=limits)
    assert statuses(execution) == ["OK", "OLE"]


def test_arguments_that_are_not_plain_data_are_refused(plain_sandbox: Sandbox):
    with pytest.raises(ValueError, match=r"call 1 \(f\): a value of type object"):
        run(plain_sandbox, "", ("f", 1), ("f", object()))


def test_later_arguments_are_not_in_the_child_yet(plain_sandbox: Sandbox):
    source = (
        "import gc\n"
        "def f(needle, x):\n"
        "    lists = [o for o in gc.get_objects() if isinstance(o, (list, dict))]\n"
        "    return any(needle[::-1] in repr(o)[:9999] for o in lists[-500:])\n"
    )
    needle = "tercesnedd"
    calls = ("f", needle, "hidden"), ("f", needle, needle[::-1])
    assert values(run(plain_sandbox, source, *calls, limits=Limits())) == [False, True]


FORGE = "import os, struct\ndef send(b): os.write(3, struct.pack('<I', len(b)) + b)\n"
ATTACKS = {
    "equal_to_everything": (
        "class E:\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "def f(): return E()"
    ),
    "list_equal_to_everything": (
        "class E(list):\n    def __eq__(self, other): return True\ndef f(): return E()"
    ),
    "int_equal_to_everything": (
        "class E(int):\n    def __eq__(self, other): return True\n"
        "    __hash__ = int.__hash__\ndef f(): return E(1)"
    ),
    "str_subclass": "class E(str): pass\ndef f(): return E('a')",
    "dict_subclass": "class E(dict): pass\ndef f(): return E()",
    "item_equal_to_everything": (
        "class E:\n    def __eq__(self, other): return True\ndef f(): return [1, E()]"
    ),
    "class_called_list": "class list:\n    pass\ndef f(): return list()",
    "exit_in_call": "def f(): raise SystemExit(0)",
    "hard_exit_in_call": "import os\ndef f(): os._exit(0)",
    "exit_at_top": "import sys\nsys.exit(0)",
    "hard_exit_at_top": "import os\nos._exit(0)",
    "generator": "def f(): yield 42",
    "function": "def f(): return f",
    "assertion_error": "def f(): raise AssertionError",
    "deep_value": (
        "def f():\n    x = []\n    for _ in range(100000): x = [x]\n    return x"
    ),
    "value_that_holds_itself": "def f():\n    x = []\n    x.append(x)\n    return x",
    "deep_recursion": "def f(): return f()",
    "forged_giant_frame": (
        "import os\nos.write(3, b'\\xff\\xff\\xff\\xff')\ndef f(): return 0"
    ),
    "forged_first_frame": FORGE + "send(b'{\"value\": 42}')\ndef f(): return 0",
    "forged_garbage": FORGE + "send(b'{]')\ndef f(): return 0",
    "forged_nesting": FORGE + "def f():\n    send(b'[' * 100000)\n    return 0",
    "forged_array": FORGE + "def f():\n    send(b'[42]')\n    return 0",
    "forged_tag": FORGE + 'def f():\n    send(b\'{"value": {"q": 42}}\')',
    "forged_no_value": FORGE + "def f():\n    send(b'{\"cpu_s\": 1}')",
    "forged_nan": FORGE + "def f():\n    send(b'{\"value\": NaN}')",
    "forged_long_int": FORGE
    + "def f():\n    send(b'{\"value\": ' + b'9' * 9999 + b'}')",
    "forged_unhashable": FORGE + 'def f():\n    send(b\'{"value": {"s": [[1]]}}\')',
    "closed_channel": "import os\nos.close(3)\ndef f(): return 42",
    "closed_channel_in_call": "import os\ndef f():\n    os.close(3)\n    return 42",
    "swallowed_request": "import os\ndef f():\n    os.read(3, 99)",
    "patched_encoder": (
        "import sys\nplain = sys._getframe(1).f_globals['plain_data']\n"
        "plain.to_bytes = lambda *a: b'42'[:0]\ndef f(): return 0"
    ),
    "patched_answer": (
        "import sys\nsys._getframe(1).f_globals['answer_call'] = lambda *a: None\n"
        "def f(): return 0"
    ),
    "patched_json": (
        "import json\njson.loads = json.dumps = lambda *a, **k: None\n"
        "def f(): return 42"
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_gives_no_value(name: str, plain_sandbox: Sandbox):
    execution = run(plain_sandbox, ATTACKS[name], ("f",), ("f",), limits=IDLE)
    assert all(result.status in ("RE", "TLE") for result in execution.results)
    assert values(execution) == [None, None]
    assert plain_sandbox.run(Program(source="print(1)")).stdout == "1\n"


def test_value_beyond_the_output_limit_is_output_limit(plain_sandbox: Sandbox):
    sources = {
        "text": "def f(): return 'a' * 10 ** 7",
        "integer": "def f(): return 1 << 8 * 10 ** 6",
        "shared lists": (
            "def f():\n    x = [0]\n    for _ in range(40): x = [x, x]\n    return x"
        ),
    }
    limits = Limits(cpu_s=2.0, output_bytes=10**5)
    found = [run(plain_sandbox, s, ("f",), limits=limits) for s in sources.values()]
    assert [statuses(execution) for execution in found] == [["OLE"]] * 3


def test_attack_cannot_reach_the_next_call(plain_sandbox: Sandbox):
    source = FORGE + (
        "def f(x):\n    send(b'{\"value\": 42}')\n    send(b'{\"value\": 42}')\n"
        "    return 0"
    )
    execution = run(plain_sandbox, source, ("f", 1), ("f", 2), ("f", 3))
    assert len(execution.results) == 3


def test_dictionaries_of_the_standard_library_become_plain(plain_sandbox: Sandbox):
    source = (
        "from collections import *\n"
        "def f(): return Counter('aab'), OrderedDict(a=1), defaultdict(int, b=2)\n"
        "def g(): return namedtuple('P', 'x y')(1, 2)"
    )
    execution = run(plain_sandbox, source, ("f",), ("g",))
    assert repr(values(execution)) == repr(
        [({"a": 2, "b": 1}, {"a": 1}, {"b": 2}), (1, 2)]
    )


def test_numbers_of_numpy_become_plain():
    with Sandbox(level="B", packages=("numpy",)) as sandbox:
        source = "import numpy as np\ndef f(): return np.int64(3), np.float64(0.5)"
        assert repr(values(run(sandbox, source, ("f",)))) == "[(3, 0.5)]"
