"""Sketches as Python: with a loop, and as those write who know the idioms."""

from jaxgrpo.problems.mini_programs.sketch import Sketch

INDENT = "    "


def loop_code(sketch: Sketch) -> str:
    """Returns the function with a loop: one thing a line, no comprehension."""
    fold, variable = sketch.fold, sketch.variable
    inside: list[str] = []
    if sketch.stop is not None:
        inside += [f"if {sketch.stop.code}:", f"{INDENT}break"]
    inside += _for_one_element(sketch)
    lines = [
        *_guard(sketch),
        *(_filled(line, sketch) for line in fold.start),
        f"for {variable} in {sketch.source.code}:",
        *(INDENT + line for line in inside),
        f"return {_ended(sketch, _filled(fold.end, sketch))}",
    ]
    return _function(sketch, lines)


def idiomatic_code(sketch: Sketch) -> str:
    """Returns the function with a comprehension; empty where none fits."""
    idiom = sketch.fold.idiom
    if not idiom or sketch.stop is not None:
        return ""
    head = f"for {sketch.variable} in {sketch.source.code}"
    test = _test(sketch)
    chosen = f"{head} if {test}" if test else head
    each = f"{_value(sketch)} {chosen}"
    slots = {
        "{all}": each,
        "{list}": f"[{each}]",
        "{ones}": f"1 {chosen}",
        "{test}": f"{test} {head}",
    }
    for slot, text in slots.items():
        idiom = idiom.replace(slot, text)
    lines = [*_guard(sketch), f"return {_ended(sketch, idiom)}"]
    return _function(sketch, lines)


def signature(sketch: Sketch) -> str:
    """Returns the function's name and arguments: `f(xs, k)`."""
    return f"f({sketch.argument}{', k' if sketch.has_k else ''})"


def _function(sketch: Sketch, lines: list[str]) -> str:
    return "\n".join([f"def {signature(sketch)}:", *(INDENT + x for x in lines)])


def _guard(sketch: Sketch) -> list[str]:
    guard = sketch.guard
    if guard is None:
        return []
    name = sketch.argument
    size = name if name == "n" else f"len({name})"
    return [f"if {size} < {guard.size}:", f"{INDENT}return {guard.value}"]


def _for_one_element(sketch: Sketch) -> list[str]:
    fold, branch = sketch.fold, sketch.branch
    if branch is not None:
        return [
            f"if {branch.condition.code}:",
            *_update(sketch, branch.mapping.code),
            "else:",
            *_update(sketch, branch.otherwise.code),
        ]
    test = _test(sketch)
    if sketch.fold_name == "all":
        test = f"not ({test})" if len(sketch.conditions) > 1 else f"not {test}"
    update = _update(sketch, _value(sketch))
    if not test:
        return [line.removeprefix(INDENT) for line in update]
    if sketch.fold_name == "distinct":
        # One condition more, rather than one level more.
        joined = f"({test})" if sketch.connective == "or" and " or " in test else test
        first, second = fold.update
        first = _filled(first, sketch, _value(sketch)).removeprefix("if ")
        second = _filled(second, sketch, _value(sketch))
        return [f"if {joined} and {first}", second]
    return [f"if {test}:", *update]


def _update(sketch: Sketch, value: str) -> list[str]:
    return [INDENT + _filled(line, sketch, value) for line in sketch.fold.update]


def _test(sketch: Sketch) -> str:
    return f" {sketch.connective} ".join(c.code for c in sketch.conditions)


def _value(sketch: Sketch) -> str:
    branch = sketch.branch
    if branch is not None:
        then, test, other = branch.mapping, branch.condition, branch.otherwise
        return f"{then.code} if {test.code} else {other.code}"
    return sketch.variable if sketch.mapping is None else sketch.mapping.code


def _filled(template: str, sketch: Sketch, value: str = "") -> str:
    right, slip = sketch.fold.slip
    if sketch.fold_slips and right:
        template = template.replace(right, slip)
    return (
        template.replace("{{}}", "{}")
        .replace("{m}", sketch.start)
        .replace("{e}", value)
    )


def _ended(sketch: Sketch, result: str) -> str:
    return sketch.ending.code.replace("{r}", result) if sketch.ending else result
