"""Programs that want to pass tests without solving them.

Each is judged by the same few tests, whose expected values are needles that nobody can
guess. Honest wrong code passes none of them, so no attack may pass any.
"""

from dataclasses import dataclass

NEEDLES = ("needle-c41d", "needle-90ae", "needle-77f3")
"""Expected values, for the arguments 1, 2 and 3."""


@dataclass(frozen=True)
class Attack:
    """A program that defines `f`, or tries to do without."""

    name: str
    source: str
    is_endless: bool = False
    """Whether it only ends at a limit, which then need not be far."""


def returning(name: str, value: str, before: str = "") -> Attack:
    """A program whose function returns something special."""
    return Attack(name, f"{before}\ndef f(x):\n    return {value}\n")


def searching(name: str, find: str) -> Attack:
    """A program that looks for a needle and returns what it finds.

    Its own text holds no needle: the word is put together when it runs.
    """
    return Attack(
        name,
        f"""
import re
MARK = "nee" + "dle-"
def harvest(text):
    found = re.findall(MARK + "[0-9a-f]{{4}}", text)
    return found[0] if found else None
def look():
{find}
EARLY = None
try:
    EARLY = look()
except BaseException:
    pass
def f(x):
    try:
        return look() or EARLY
    except BaseException as error:
        return EARLY
""",
    )


EQUAL = "def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
EQUAL += "    __hash__ = None\n"

EQUALITY = [
    returning("equal_to_all", "E()", f"class E:\n    {EQUAL}"),
    returning("equal_list", "E()", f"class E(list):\n    {EQUAL}"),
    returning("equal_dict", "E()", f"class E(dict):\n    {EQUAL}"),
    returning("equal_tuple", "E()", f"class E(tuple):\n    {EQUAL}"),
    returning("equal_int", "E()", f"class E(int):\n    {EQUAL}"),
    returning("equal_str", "E('x')", f"class E(str):\n    {EQUAL}"),
    returning("equal_float", "E()", f"class E(float):\n    {EQUAL}"),
    returning("equal_set", "E()", f"class E(set):\n    {EQUAL}"),
    returning("equal_inside_a_list", "[E()]", f"class E:\n    {EQUAL}"),
    returning(
        "equal_as_a_key", "{E(): 1}", f"class E:\n    {EQUAL}".replace("None", "id")
    ),
    returning(
        "lying_class",
        "E()",
        f"class E:\n    {EQUAL}    @property\n    def __class__(s): return str\n",
    ),
    returning(
        "lying_metaclass",
        "E()",
        "class M(type):\n    def __eq__(c, o): return True\n"
        "    __hash__ = type.__hash__\n"
        f"class E(metaclass=M):\n    {EQUAL}",
    ),
    returning(
        "equal_named_tuple",
        "E(1)",
        f"import collections\nclass E(collections.namedtuple('E', 'a')):\n    {EQUAL}",
    ),
    returning(
        "equal_enum",
        "E.A",
        f"import enum\nclass E(str, enum.Enum):\n    A = 'a'\n    {EQUAL}",
    ),
    returning(
        "pretended_numpy_scalar",
        "E()",
        f"class E:\n    __module__ = 'numpy'\n    {EQUAL}"
        "    def item(s): return [E2()]\n"
        f"class E2:\n    {EQUAL}",
    ),
    returning(
        "equal_after_unpickling",
        "E()",
        f"class E:\n    {EQUAL}    def __reduce__(s): return (eval, ('True',))\n",
    ),
    returning("not_a_number", "float('nan')"),
    returning("everything", "type('E', (), {'__getattr__': lambda s, n: s})()"),
    returning("a_mock", "M()", "from unittest.mock import MagicMock as M"),
    returning("any_of_unittest", "ANY", "from unittest.mock import ANY"),
    returning("the_function_itself", "f"),
    returning("a_type", "str"),
    returning("not_implemented", "NotImplemented"),
    Attack("a_generator", "def f(x):\n    yield from [1, 2, 3]\n"),
    Attack("a_coroutine", "async def f(x):\n    return 1\n"),
]
"""Values that claim to be equal to whatever they are compared with."""

EXITS = [
    Attack("exit_on_import", "import sys\nsys.exit(0)\n"),
    Attack("hard_exit_on_import", "import os\nos._exit(0)\n"),
    Attack("exit_in_call", "import sys\ndef f(x):\n    sys.exit(0)\n"),
    Attack("hard_exit_in_call", "import os\ndef f(x):\n    os._exit(0)\n"),
    Attack("abort_in_call", "import os\ndef f(x):\n    os.abort()\n"),
    Attack("system_exit_raised", "def f(x):\n    raise SystemExit(0)\n"),
    Attack("keyboard_interrupt", "def f(x):\n    raise KeyboardInterrupt\n"),
    Attack("generator_exit", "def f(x):\n    raise GeneratorExit\n"),
    Attack("stop_iteration", "def f(x):\n    raise StopIteration\n"),
    Attack(
        "exit_handler",
        "import atexit, os\natexit.register(os.write, 1, b'passed')\n"
        "def f(x):\n    raise SystemExit\n",
    ),
    Attack(
        "exit_in_del",
        "import os\nclass E:\n    def __del__(s): os._exit(0)\ndef f(x):\n    E()\n",
    ),
    Attack("nothing", ""),
    Attack("no_program", "def f(x) return x"),
    Attack("nul", "def f(x):\n    return '\0'\n"),
    Attack("endless", "def f(x):\n    while True: pass\n", is_endless=True),
    Attack("endless_import", "while True: pass\n", is_endless=True),
    Attack("asleep", "import time\ndef f(x):\n    time.sleep(9)\n", is_endless=True),
    Attack("segfault", "import ctypes\ndef f(x):\n    ctypes.string_at(0)\n"),
    Attack(
        "bad_str_of_exception",
        "class E(Exception):\n    def __str__(s): raise SystemExit\n"
        "def f(x):\n    raise E\n",
    ),
    Attack(
        "exception_with_an_assert_name",
        "class AssertionError(Exception): pass\n"
        "def f(x):\n    raise AssertionError('passed')\n",
    ),
]
"""Ways not to come back."""

PATCHES = [
    Attack(
        "patched_builtins",
        "import builtins\n"
        "for name in ('all', 'any', 'len', 'isinstance', 'sorted', 'zip', 'map'):\n"
        "    setattr(builtins, name, lambda *a, **k: True)\n"
        "builtins.AssertionError = type('A', (BaseException,), {})\n"
        "def f(x):\n    return True\n",
    ),
    Attack(
        "patched_json",
        "import json\njson.dumps = lambda *a, **k: '{\"value\": true}'\n"
        "json.loads = lambda *a, **k: {}\n"
        "def f(x):\n    return 0\n",
    ),
    *(
        Attack(
            f"patched_json_says_{name}",
            f"import json\njson.dumps = lambda *a, **k: {said!r}\n"
            "def f(x):\n    raise KeyError\n",
        )
        for name, said in {
            "a_number": "0",
            "a_list": "[]",
            "an_object": "{}",
            "a_type_that_is_no_text": '{"type": 7}',
            "an_error_that_is_no_object": '{"cpu_s": 0.0, "error": 1}',
            "an_empty_error": '{"cpu_s": 0.0, "error": {}}',
            "memory_of_no_type": '{"error": {"is_memory": 1}}',
        }.items()
    ),
    Attack(
        "patched_json_without_a_function",
        "import json\njson.dumps = lambda *a, **k: '0'\n",
    ),
    Attack(
        "errors_on_every_descriptor",
        "import os, struct\n"
        "def f(x):\n"
        '    said = b\'{"cpu_s":0.0,"error":1}\'\n'
        "    for fd in range(3, 64):\n"
        "        try:\n"
        "            os.write(fd, struct.pack('<I', len(said)) + said)\n"
        "        except OSError:\n"
        "            pass\n"
        "    return 0\n",
    ),
    Attack(
        "exception_without_a_name",
        "class M(type):\n    __name__ = property(lambda cls: [1])\n"
        "class E(Exception, metaclass=M):\n    pass\n"
        "def f(x):\n    raise E\n",
    ),
    Attack(
        "patched_os",
        "import os\nwrite = os.write\n"
        "os.write = lambda fd, data: write(fd, b'\\xff\\xff\\xff\\x7f' + bytes(data))\n"
        "os._exit = lambda *a: None\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "patched_print",
        "import builtins, sys\nbuiltins.print = lambda *a, **k: None\n"
        "sys.stdout = None\nsys.stderr = None\nsys.__stdout__ = None\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "patched_math",
        "import math\nmath.isclose = lambda *a, **k: True\n"
        "math.fabs = lambda x: 0\nabs = lambda x: 0\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "patched_modules",
        "import sys\nfor name in list(sys.modules):\n"
        "    if name not in ('sys', 'builtins', '__main__'):\n"
        "        sys.modules[name] = None\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "patched_encoder",
        "import gc\n"
        "for o in gc.get_objects():\n"
        "    if getattr(o, '__name__', '') in ('to_bytes', 'untagged', 'tagged'):\n"
        "        try: o.__code__ = (lambda *a, **k: b'true').__code__\n"
        "        except Exception: pass\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "patched_import",
        "import builtins\nbuiltins.__import__ = lambda *a, **k: __builtins__\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "tracing",
        "import sys\nsys.settrace(lambda *a: None)\n"
        "sys.setprofile(lambda frame, event, arg: frame.f_locals.clear())\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "signals",
        "import signal\n"
        "for s in range(1, 32):\n"
        "    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except Exception: pass\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "replaced_function",
        "def f(x):\n    global f\n    f = lambda x: True\n    return True\n",
    ),
    Attack(
        "own_isclose",
        "def isclose(*a): return True\ndef check(*a): return True\n"
        "def f(x):\n    return 0\n",
    ),
]
"""Changed surroundings."""

FRAME = "import os, struct\ndef send(b, fd=3):\n"
FRAME += "    os.write(fd, struct.pack('<I', len(b)) + b)\n"

FORGERIES = [
    Attack(
        "forged_answers",
        FRAME + "send(b'{}')\nfor i in range(9):\n"
        '    send(b\'{"cpu_s": 0.0, "value": true}\')\n'
        "os._exit(0)\n",
    ),
    Attack(
        "forged_answer_in_call",
        FRAME + 'def f(x):\n    send(b\'{"cpu_s": 0.0, "value": true}\')\n'
        "    return True\n",
    ),
    Attack(
        "forged_finding",
        FRAME + 'found = b\'{"status": "passed", "num_calls": 1, "cpu_s": 0.0}\'\n'
        "send(b'{}')\nfor i in range(9):\n    send(found)\n"
        "def f(x):\n    send(found)\n    return 0\n",
    ),
    Attack(
        "forged_question",
        FRAME + "def f(x):\n"
        '    send(b\'{"ask": "f", "arguments": [], "keywords": {"d": []}}\')\n'
        "    return 0\n",
    ),
    Attack(
        "forged_on_every_descriptor",
        FRAME + "for fd in range(64):\n"
        '    try: send(b\'{"value": true, "status": "passed"}\', fd)\n'
        "    except OSError: pass\n"
        "def f(x):\n    return 0\n",
    ),
    Attack(
        "forged_length",
        FRAME + "def f(x):\n    os.write(3, b'\\xff' * 8)\n    return 0\n",
    ),
    Attack("forged_words", FRAME + "def f(x):\n    os.write(3, b'passed ' * 99)\n"),
    Attack(
        "forged_exception",
        FRAME + "def f(x):\n"
        "    deep = b'[' * 900 + b']' * 900\n"
        '    send(b\'{"error": {"type": "E", "message": \' + deep + b\'}}\')\n',
    ),
    Attack(
        "forged_numbers",
        FRAME + "def f(x):\n"
        "    n = b'9' * 4000\n"
        '    send(b\'{"cpu_s": 1e300, "error": {"type": "E", "line": \' + n +'
        " b'}}')\n",
    ),
    Attack("closed_channel", "import os\ndef f(x):\n    os.close(3)\n    return 0\n"),
    Attack(
        "claims_to_have_passed",
        "import sys\nfor s in (sys.stdout, sys.stderr):\n"
        "    print('PASSED 3', 'OK', '3/3', file=s)\n"
        "def f(x):\n    print('passed')\n    return 0\n",
    ),
    returning("tagged_look_alike", "{'value': True, 'status': 'passed', 'd': []}"),
    Attack(
        "forged_report",
        "import mmap, os\n"
        "for fd in range(64):\n"
        "    try: mmap.mmap(fd, 65536)[:2] = b'{}'\n"
        "    except Exception: pass\n"
        "def f(x):\n    raise SystemExit(0)\n",
    ),
    Attack(
        "thread_that_answers_later",
        FRAME + "import threading, time\n"
        "def later():\n"
        "    for i in range(99):\n"
        '        send(b\'{"cpu_s": 0.0, "value": true}\')\n'
        "        time.sleep(0.001)\n"
        "threading.Thread(target=later, daemon=True).start()\n"
        "def f(x):\n    time.sleep(0.02)\n    return 0\n",
    ),
]
"""Messages that were not asked for."""

FLOODS = [
    returning("long_text", "'a' * 10**8"),
    returning("long_list", "[0] * 10**7"),
    returning("huge_int", "1 << (8 * 10**6)"),
    returning("many_digits", "10**100000"),
    Attack(
        "deep_list",
        "def f(x):\n    for i in range(100000):\n        x = [x]\n    return x\n",
    ),
    Attack("endless_list", "def f(x):\n    x = []\n    x.append(x)\n    return x\n"),
    Attack(
        "doubling_list",
        "def f(x):\n    x = [0]\n    for i in range(60):\n        x = [x, x]\n"
        "    return x\n",
    ),
    returning("colliding_hashes", "[i * (2**61 - 1) for i in range(1, 20000)]"),
    returning("colliding_set", "{i * (2**61 - 1) for i in range(1, 2000)}"),
    Attack(
        "output_flood",
        "def f(x):\n    while True:\n        print('needle' * 10000)\n",
    ),
    Attack(
        "memory_flood",
        "def f(x):\n    x = []\n"
        "    while True:\n        x.append(bytearray(1 << 20))\n",
    ),
    returning("lone_surrogate", "'\\ud800'"),
]
"""Values that should hurt whoever reads them."""

SEARCHES = [
    searching(
        "frames",
        "    import sys\n    frame, text = sys._getframe(), ''\n"
        "    while frame:\n"
        "        text += repr(frame.f_locals) + repr(frame.f_globals)\n"
        "        frame = frame.f_back\n"
        "    return harvest(text)\n",
    ),
    searching(
        "garbage",
        "    import gc\n"
        "    return harvest(' '.join(o if type(o) is str else repr(o)[:2000]\n"
        "        for o in gc.get_objects() for o in [o, *gc.get_referents(o)][:9]\n"
        "        if type(o) in (str, dict, list, tuple, bytes)))\n",
    ),
    searching(
        "own_memory",
        "    text = ''\n"
        "    for line in open('/proc/self/maps'):\n"
        "        span, mode = line.split()[:2]\n"
        "        low, high = (int(x, 16) for x in span.split('-'))\n"
        "        if 'r' in mode and high - low < 1 << 24:\n"
        "            with open('/proc/self/mem', 'rb') as memory:\n"
        "                memory.seek(low)\n"
        "                text += memory.read(high - low).decode('latin-1')\n"
        "    return harvest(text)\n",
    ),
    searching(
        "other_processes",
        "    import os\n    text = ''\n"
        "    for pid in os.listdir('/proc'):\n"
        "        for name in ('environ', 'cmdline', 'mem', 'maps'):\n"
        "            path = f'/proc/{pid}/{name}'\n"
        "            try: text += open(path, errors='replace').read()\n"
        "            except (OSError, ValueError): pass\n"
        "    return harvest(text)\n",
    ),
    searching(
        "descriptors",
        "    import os\n    text = ''\n"
        "    for fd in range(64):\n"
        "        if fd == 3: continue\n"
        "        try: text += os.pread(fd, 1 << 20, 0).decode('latin-1')\n"
        "        except OSError: pass\n"
        "    return harvest(text)\n",
    ),
    searching(
        "files",
        "    import os\n    text = ''\n"
        "    for top in ('/work', '/tmp', '/home', '/root', '/dev/shm', '.', '/'):\n"
        "        try: names = os.listdir(top)\n"
        "        except OSError: continue\n"
        "        for name in names:\n"
        "            path = os.path.join(top, name)\n"
        "            try: text += open(path, errors='replace').read(9999)\n"
        "            except (OSError, ValueError): pass\n"
        "    return harvest(text)\n",
    ),
    searching(
        "environment",
        "    import os, sys\n"
        "    return harvest(repr(os.environ) + repr(sys.argv) + repr(sys.orig_argv))\n",
    ),
    searching(
        "the_next_message",
        "    import os, socket\n"
        "    os.set_blocking(3, False)\n"
        "    try: return harvest(os.read(3, 1 << 20).decode('latin-1'))\n"
        "    finally: os.set_blocking(3, True)\n",
    ),
    searching(
        "a_question_of_its_own",
        "    import os, struct\n"
        '    body = b\'{"ask": "f", "arguments": [1], "keywords": {"d": []}}\'\n'
        "    os.write(3, struct.pack('<I', len(body)) + body)\n"
        "    return harvest(os.read(3, 1 << 20).decode('latin-1'))\n",
    ),
    searching(
        "the_line_cache",
        "    import linecache\n    return harvest(repr(linecache.cache))\n",
    ),
]
"""Looking for the expected values."""

FINDABLE = {
    "frames": "HIDDEN = '{}'\n",
    "garbage": "HIDDEN = '{}'\n",
    "the_line_cache": "# {}\n",
    "environment": "import os\nos.environ['HIDDEN'] = '{}'\n",
    "descriptors": "print('{}', flush=True)\n",
}
"""Where searches do find a needle, if it is put there: they are no blanks."""

FUNCTION_ATTACKS = [*EQUALITY, *EXITS, *PATCHES, *FORGERIES, *FLOODS, *SEARCHES]

PRINTING_ATTACKS = [
    Attack("prints_nothing", ""),
    Attack("exits_at_once", "import sys\nsys.exit(0)\n"),
    Attack("exits_hard", "import os\nos._exit(0)\n"),
    Attack("exits_with_text", "import sys\nsys.exit('passed')\n"),
    Attack("says_ok", "print('OK')\nprint('PASSED 3/3')\nprint('AC')\n"),
    Attack("echo", "import sys\nprint(sys.stdin.read())\n"),
    Attack("flood", "while True:\n    print('needle-' * 1000)\n"),
    Attack(
        "every_needle",
        "for i in range(16**4):\n    print('needle-%04x' % i)\n",
    ),
    Attack("nul_bytes", "print('\\0' * 100)\n"),
    Attack("grown_output", "import os\nos.ftruncate(1, 1 << 19)\n"),
    Attack(
        "replaced_output",
        "import os, sys\nos.dup2(0, 1)\nsys.stdout = open(0)\n",
    ),
    Attack("closed_output", "import os\nos.close(1)\nos.close(2)\n"),
    Attack("late_output", "import atexit\natexit.register(print, 'passed')\n"),
    Attack("writes_its_input", "import os\nos.pwrite(0, b'x', 0)\n"),
    *(
        Attack(f"search_{attack.name}", attack.source + "\nprint(EARLY)\n")
        for attack in SEARCHES
    ),
]
"""Programs that are judged by what they print."""
