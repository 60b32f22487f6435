"""Programs with every kind of statement, for tests of tracing.

They print nothing, so that their events can also be made without a sandbox.
"""

PROGRAMS = {
    "several_per_line": """
def f(x):
    a = x; b = a + 1; return a * b
f(3)
""",
    "multi_line": """
def f(x):
    a = [
        x,
        x + 1,
    ]
    return (a[0]
            + a[1])
f(3)
""",
    "while_true": """
def f():
    x = 0
    while True:
        x += 1
        if x > 3: break
    return x
f()
""",
    "while_true_one": """
def f(it):
    try:
        while True: next(it)
    except StopIteration: pass
    return 1
f(iter([1,2]))
""",
    "while_cond": """
def f(n):
    s = 0
    while n > 0:
        s += n
        n -= 1
    else:
        s = -s
    return s
f(3)
""",
    "one_line_if": """
def f(x):
    if x: pass
    if not x: pass
    else: x = 5
    if x: return x
f(1)
""",
    "one_line_if_false": """
def f(x):
    if x: pass
f(0)
""",
    "if_pass_end": """
def f(x):
    y = 1
    if x: pass
f(1)
""",
    "elif": """
def f(x):
    if x < 0: y = 'n'
    elif x == 0:
        y = 'z'
    elif x < 10: y = 's'
    else:
        y = 'b'
    return y
f(5)
""",
    "for_break_else": """
def f(a):
    for x in a:
        if x == 2: break
    else:
        return None
    return x
f([1,2,3])
""",
    "for_else": """
def f(a):
    for x in a: continue
    else:
        return -1
f([1,2])
""",
    "nested_loops": """
def f(n):
    c = 0
    for i in range(n):
        for j in range(i): c += 1
    return c
f(3)
""",
    "comprehension": """
def f(n):
    a = [i * i for i in range(n) if i % 2]
    b = {k: v for k, v in zip(a, a)}
    c = {x for x in a}
    d = sum(x for x in a)
    for q in [w for w in range(2)]:
        d += q
    return (a, b, c, d)
f(5)
""",
    "comp_in_if": """
def f(n):
    if [i for i in range(n)]: x = 1
    while [i for i in range(n)]: n -= 1
    return n
f(2)
""",
    "nested_comp": """
def f(n):
    return [[j for j in range(i)] for i in range(n)]
f(3)
""",
    "multi_comp_lines": """
def f(n):
    a = [
        i
        for i in range(n)
        if i
    ]
    return a
f(3)
""",
    "recursion": """
def f(n):
    if n < 2: return n
    return f(n - 1) + f(n - 2)
f(4)
""",
    "nested_function": """
def f(n):
    t = 0
    def g(k):
        nonlocal t
        t += k
        return t
    for i in range(n): g(i)
    return t
f(3)
""",
    "global_name": """
c = 0
def f(n):
    global c
    c += n
    c = c * 2
    return c
f(3)
""",
    "lambda": """
def f(a):
    k = lambda x: (-x, 1)
    a.sort(key=k)
    return sorted(a, key=lambda y: y % 2)
f([1,2,3])
""",
    "generator": """
def g(n):
    for i in range(n):
        yield i * 2
    return 'end'
def f(n):
    s = 0
    for x in g(n):
        s += x
    r = list(g(2))
    return s
f(3)
""",
    "yield_from": """
def g():
    x = yield 1
    y = yield x
    return y
def h():
    r = yield from g()
    yield r
def f():
    it = h()
    a = next(it); b = it.send(5); c = it.send(6)
    return a, b, c
f()
""",
    "generator_throw": """
def g():
    while True:
        try:
            yield 1
        except ValueError:
            yield 2
def f():
    it = g()
    a = next(it)
    b = it.throw(ValueError('x'))
    it.close()
    return a, b
f()
""",
    "generator_abandoned": """
def g():
    try:
        yield 1
        yield 2
    finally:
        z = 3
def f():
    for x in g():
        break
    return x
f()
""",
    "exception_caught": """
def f(x):
    try:
        y = 1 // x
    except ZeroDivisionError as e:
        y = -1
    finally:
        z = 0
    return y
f(0)
""",
    "exception_not_matched": """
def f(x):
    try:
        try:
            y = [][x]
        except KeyError:
            y = 1
        except (TypeError, ValueError) as e:
            y = 2
    except IndexError:
        y = 3
    return y
f(0)
""",
    "exception_else": """
def f(x):
    try:
        y = int(x)
    except ValueError:
        return None
    else:
        y += 1
    finally:
        w = 1
    return y
f('3')
""",
    "exception_out": """
def g(x):
    return 1 // x
def f(x):
    a = 1
    b = g(x)
    return b
f(0)
""",
    "raise": """
def f(x):
    if x:
        raise ValueError('no')
    return 1
f(1)
""",
    "reraise": """
def f(x):
    try:
        raise KeyError(x)
    except KeyError:
        x = 2
        raise
f(1)
""",
    "raise_from": """
def f():
    try:
        {}[1]
    except KeyError as e:
        raise ValueError from e
f()
""",
    "return_in_finally": """
def f():
    try:
        return 1
    finally:
        return 2
f()
""",
    "return_through_finally": """
def f():
    x = 1
    try:
        return x
    finally:
        x = 2
        y = 3
f()
""",
    "return_in_loop_finally": """
def f():
    for i in range(3):
        try:
            if i == 1: return i
            continue
        finally:
            j = i
f()
""",
    "with_statement": """
import contextlib
@contextlib.contextmanager
def cm(x):
    y = x
    yield y
    y = 0
def f():
    with cm(1) as a, cm(2) as b:
        c = a + b
    return c
f()
""",
    "with_return": """
class C:
    def __enter__(self):
        return 5
    def __exit__(self, *a):
        return False
def f():
    for i in range(2):
        with C() as c:
            if i: return c
f()
""",
    "with_suppress": """
import contextlib
def f():
    with contextlib.suppress(KeyError):
        x = {}[1]
    return 1
f()
""",
    "with_in_while_true": """
class C:
    def __enter__(self): return self
    def __exit__(self, *a): pass
def f():
    n = 0
    while True:
        with C():
            n += 1
            if n > 2: return n
f()
""",
    "class_body": """
def f():
    class A:
        x = 1
        y = x + 1
        def m(self): return self.x
    a = A()
    a.z = 3
    return a.m()
f()
""",
    "methods": """
class P:
    def __init__(self, v):
        self.v = v; self.n = None
    def add(self, o):
        self.v += o.v
        return self
    @property
    def w(self): return self.v * 2
def f():
    a = P(1); b = P(2)
    a.add(b).add(b)
    a.n = b; b.n = a
    return a.w
f()
""",
    "match": """
def f(x):
    match x:
        case 0:
            y = 'zero'
        case [a, b]:
            y = a + b
        case {'k': v} if v > 1:
            y = v
        case _:
            y = None
    return y
(f(0), f([1,2]), f({'k': 3}), f('q'))
""",
    "assert": """
def f(x):
    assert x > 0, 'neg'
    assert x < 5
    return x
f(9)
""",
    "delete": """
def f():
    a = [1, 2]; b = 1
    del a[0]
    del b
    return a
f()
""",
    "walrus": """
def f(a):
    while (n := len(a)) > 1:
        a.pop()
    return n
f([1,2,3])
""",
    "augmented": """
def f(d):
    d['a'] += 1
    d['b'] = d.get('b', 0) + 1
    x = y = d['a']
    (p, q), r = (1, 2), 3
    return x
f({'a': 1})
""",
    "aliasing": """
def f():
    a = [1]
    b = a
    b.append(2)
    c = [a, b]
    c.append(c)
    return c
f()
""",
    "imports": """
def f():
    import math as m
    from collections import deque, Counter
    d = deque([1]); d.appendleft(0)
    return m.gcd(4, 6), Counter('ab')
f()
""",
    "ternary": """
def f(x):
    y = 1 if x > 2 else 2
    z = x and y or 3
    return y if z else x
f(3)
""",
    "constant_tests": """
def f():
    if 1: x = 1
    if 0: x = 2
    while 0: x = 3
    if not False: x += 1
    if __debug__: x += 1
    return x
f()
""",
    "docstring": """
def f():
    'doc'
    'other'
    ...
    return 1
f()
""",
    "bool_ops": """
def f(a, b):
    if a and b or not a:
        x = 1
    while a and b: b -= 1
    return b
f(1,2)
""",
    "star": """
def f(*a, k=1, **kw):
    first, *rest = a
    return [*rest, k, *kw]
f(1,2,3,k=4,z=5)
""",
    "decorated": """
def deco(g):
    def w(*a):
        return g(*a) + 1
    return w
def f(x):
    @deco
    def h(y):
        return y
    return h(x)
f(2)
""",
    "async": """
import asyncio
async def g(x):
    await asyncio.sleep(0)
    return x + 1
async def main():
    s = 0
    for i in range(2):
        s += await g(i)
    return s
def f():
    loop = asyncio.new_event_loop()
    r = loop.run_until_complete(main())
    loop.close()
    return r
f()
""",
    "async_gen": """
import asyncio
async def ag():
    for i in range(2):
        yield i
class CM:
    async def __aenter__(self): return 1
    async def __aexit__(self, *a): return None
async def main():
    s = 0
    async for x in ag():
        s += x
    async with CM() as c:
        s += c
    return s
def f():
    loop = asyncio.new_event_loop()
    r = loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    return r
f()
""",
    "empty_return": """
def f(x):
    if x:
        return
    y = 1
(f(1), f(0))
""",
    "infinite_generator": """
import itertools
def f():
    it = itertools.count()
    x = next(it)
    y = list(itertools.islice((i * i for i in it), 3))
    return y
f()
""",
    "callback": """
def f(a):
    def k(x):
        return -x
    b = sorted(a, key=k)
    m = list(map(lambda v: v + 1, filter(None, b)))
    return m
f([0,1,2])
""",
    "sort_inplace": """
def f(a):
    n = len(a)
    for i in range(n):
        for j in range(0, n - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a
f([3,1,2])
""",
    "memo": """
from functools import lru_cache
@lru_cache(None)
def g(n):
    return n if n < 2 else g(n - 1) + g(n - 2)
def f(n):
    return g(n)
f(4)
""",
    "main_module": """
x = 3
def f(a):
    return a + 1
for i in range(2):
    x = f(x)
class A:
    k = x
""",
    "main_exit": """
import sys
x = 1
if x: sys.exit(0)
x = 2
""",
    "try_in_loop": """
def f(a):
    out = []
    for x in a:
        try:
            out.append(10 // x)
        except ZeroDivisionError:
            out.append(None); continue
        finally:
            out.append('f')
    return out
f([1,0])
""",
    "except_star": """
def f():
    try:
        raise ExceptionGroup('g', [ValueError(1)])
    except* ValueError as e:
        x = 1
    return x
f()
""",
    "stopiteration_caught": """
def f():
    it = iter([1])
    try:
        next(it); next(it)
    except StopIteration:
        return 'done'
f()
""",
    "nested_with_exc": """
class C:
    def __enter__(self): return self
    def __exit__(self, t, v, tb):
        return t is ValueError
def f():
    with C():
        with C():
            raise ValueError
        x = 1
    return x
f()
""",
    "finally_loop": """
def f():
    n = 0
    while n < 2:
        try:
            n += 1
        finally:
            for i in range(1): n = n
    return n
f()
""",
    "loop_single_body": """
def f():
    x = 3
    while x: x -= 1
    for _ in range(2): x += 1
    return x
f()
""",
    "deep_expr": """
def f(x):
    return ((((x + 1) * 2) - 3) if (x and x) else [y for y in [z for z in range(x)]])
f(2)
""",
    "class_comp": """
def f():
    class A:
        v = [i for i in range(3)]
        w = {k: 1 for k in v}
    return A.v
f()
""",
    "lambda_default": """
def f(n):
    fs = [lambda x=i: x * 2 for i in range(n)]
    return [g() for g in fs]
f(2)
""",
    "chained_assign_attr": """
class N: pass
def f():
    a = N(); a.b = N()
    a.b.c = [1]
    a.b.c[0] += 1
    return a
f()
""",
}
