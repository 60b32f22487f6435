"""Drafts in, examples out: the sandbox says what the functions return."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jaxgrpo.host.records import Limits, Program
from jaxgrpo.problems.generation import Run
from jaxgrpo.problems.mini_programs.generator import Draft
from jaxgrpo.problems.mini_programs.inputs import NUM_EDGES, NUM_TESTS, probes

_DRIVER = Path(__file__).with_name("driver.py").read_text(encoding="utf-8")
_LIMITS = Limits(cpu_s=60.0, wall_s=600.0)
"""Generous: every loop of a draft is over a list, so none runs for long."""

MAX_VALUE_CHARS = 60
"""Of the `repr` of a result that is tested for."""


@dataclass(frozen=True, slots=True)
class Example:
    """A specification with everything that is known of it."""

    prompt: str
    reference: str
    idiomatic: str
    careless: str
    """A careless reader's program; the reference itself where that one is right."""
    knowledge: list[str]
    planning: list[str]
    solution: list[str]
    family: str
    difficulty: str
    tests: str
    """Text of a list of (arguments, value)."""
    behaviour: str
    """What the reference does on the probes, as a digest: equal for functions that do
    the same."""


def examples_of(drafts: Sequence[Draft], run: Run) -> list[Example]:
    """Returns an example for each draft that makes a good problem, in order.

    Dropped are drafts whose results hardly depend on the arguments, or that raise.

    Args:
      drafts: What to execute; all share one run of the sandbox.
      run: The sandbox.

    Raises:
      RuntimeError: The sandbox itself failed.
    """
    outcomes = _outcomes(drafts, run)
    made = map(_example, drafts, outcomes)
    return [example for example in made if example is not None]


Outcome = tuple[list[list[str | None]], str]
"""`repr`s of what each program returns for the inputs, and the digest of what the
first one returns for the probes."""


def _outcomes(drafts: Sequence[Draft], run: Run) -> list[Outcome]:
    """Returns the outcome of reference, idiomatic and careless program by draft."""
    requests = [
        [
            [draft.reference, draft.idiomatic or draft.reference, draft.careless],
            repr(draft.inputs),
            _probes_text(draft.argument_types),
        ]
        for draft in drafts
    ]
    execution = run(Program(source=_DRIVER, stdin=json.dumps(requests), limits=_LIMITS))
    if execution.status != "OK":
        raise RuntimeError(
            f"the sandbox ended with {execution.status} while the data set was built: "
            f"{execution.reason or execution.stderr[-500:]}. Run `jaxgrpo doctor` to "
            "see what it can use on this machine."
        )
    return json.loads(execution.stdout)


@cache
def _probes_text(argument_types: str) -> str:
    return repr(probes(argument_types))


def _example(draft: Draft, outcome: Outcome) -> Example | None:
    (found, idiomatic_values, careless_values), digest = outcome
    if idiomatic_values != found:
        raise RuntimeError(
            f"two ways of writing {draft.prompt!r} differ:\n{draft.reference}\n"
            f"{draft.idiomatic}"
        )
    values = [value for value in found if value is not None]
    if not digest or len(values) < len(found):
        return None
    is_telling = [a != b for a, b in zip(values, careless_values, strict=True)]
    chosen = _chosen(values, is_telling)
    fewest = 2 if set(values) <= {"True", "False"} else 4
    if len(chosen) < NUM_TESTS or len({values[i] for i in chosen}) < fewest:
        return None
    tests = ", ".join(f"({draft.inputs[i]!r}, {values[i]})" for i in chosen)
    is_wrong = any(is_telling[i] for i in chosen)
    return Example(
        prompt=draft.prompt,
        reference=draft.reference,
        idiomatic=draft.idiomatic,
        careless=draft.careless if is_wrong else draft.reference,
        knowledge=draft.hints["knowledge"],
        planning=draft.hints["planning"],
        solution=draft.hints["solution"],
        family=draft.family,
        difficulty=draft.level,
        tests=f"[{tests}]",
        behaviour=f"{draft.argument_types}/{digest}",
    )


def _chosen(values: Sequence[str], is_telling: Sequence[bool]) -> list[int]:
    """Returns the places of the inputs to test with.

    The short ones; then, one by one, that whose value has been chosen least often,
    those first on which a careless reader's program is wrong.
    """
    chosen = list(range(NUM_EDGES))
    times = Counter(values[place] for place in chosen)
    left = list(range(NUM_EDGES, len(values)))
    left = [place for place in left if len(values[place]) <= MAX_VALUE_CHARS]
    while left and len(chosen) < NUM_TESTS:
        best = min(left, key=lambda i: (times[values[i]], not is_telling[i], i))
        left.remove(best)
        chosen.append(best)
        times[values[best]] += 1
    return chosen
