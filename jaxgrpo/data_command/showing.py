"""`jaxgrpo data show`: one problem, as a person would read it."""

import difflib
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console as RichConsole
from rich.text import Text

from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.data_command.settings import config_of_name
from jaxgrpo.host.records import Problem, Test
from jaxgrpo.host.stored_tests import tests_of
from jaxgrpo.host.user_message import user_message
from jaxgrpo.problems.datasets import load_splits

LONGEST_TEXT = 2000
"""Characters of a text that are shown."""
LONGEST_COLUMN = 200


def show_problem(
    name: str,
    which: str,
    overrides: Sequence[str],
    *,
    split: str | None = None,
    num_tests: int = 5,
) -> None:
    """Shows a problem: message, tests, reference, hints, tags and other columns.

    Args:
      name: A data set, or a configuration.
      which: The problem's id, or its place in the split.
      overrides: `data.FIELD=VALUE` and `prompt.FIELD=VALUE` each.
      split: To look in; None for all, the configured one first.
      num_tests: Largest number of tests shown; 0 for all.
    """
    config = config_of_name(name, overrides, tables=("data", "prompt"))
    # Also what is left out of training can be looked at; it comes last.
    everything = {"include_inexpressible": not config.data.is_generated}
    data = config.data.model_copy(update=everything)
    with Console("auto", 1, stream=sys.stderr) as progress:
        splits = load_splits(data, progress.counter(f"preparing {data.dataset}"))
    found, place, problem = find_problem(splits, which, split or data.split)
    out = RichConsole(highlight=False, soft_wrap=True)
    for title, text in sections(problem, config, num_tests):
        if title:
            out.print(Text(f"\n{title}", style="bold"))
        out.print(Text(text))
    size = len(splits[found])
    out.print(Text(f"\n{place} of {size:,} in the split {found}", style="dim"))


def find_problem(
    splits: dict[str, Sequence[Problem]], which: str, split: str
) -> tuple[str, int, Problem]:
    """Returns the split and place of a problem, and the problem.

    Args:
      splits: Problems by split.
      which: An id, or a place in the split that is looked in first.
      split: Which to look in first, if there is such a one.

    Raises:
      ValueError: There is no such problem.
    """
    first = split if split in splits else next(iter(splits))
    if which.lstrip("-").isdecimal():
        problems = splits[first]
        if not -len(problems) <= int(which) < len(problems):
            raise ValueError(
                f"the split {first!r} has {len(problems)} problems, and none at "
                f"{which}. Give a place from 0 to {len(problems) - 1}, or an id."
            )
        return first, int(which) % len(problems), problems[int(which)]
    ids: list[str] = []
    for name in sorted(splits, key=lambda name: name != first):
        for place, problem in enumerate(splits[name]):
            if problem.id == which:
                return name, place, problem
            ids.append(problem.id)
    near = difflib.get_close_matches(which, ids, n=1, cutoff=0.0)
    raise ValueError(
        f"no problem has the id {which!r}. Did you mean {near[0]!r}? A number is a "
        "place in the split."
    )


def sections(
    problem: Problem, config: Config, num_tests: int
) -> Iterator[tuple[str, str]]:
    """Yields the parts of a problem as titles and texts.

    Args:
      problem: Any.
      config: Its template words the user's message.
      num_tests: Largest number of tests shown; 0 for all.
    """
    tags = "".join(f"   {name}: {value}" for name, value in problem.tags.items())
    yield "", f"{problem.id}   kind: {problem.kind}{tags}"
    yield "The user's message", user_message(problem, config.prompt.template)
    tests = tests_of(problem)
    shown = tests[:num_tests] if num_tests else tests
    for number, test in enumerate(shown, start=1):
        yield f"Test {number} of {len(tests)}", shortened(text_of_test(test))
    if len(shown) < len(tests):
        yield "", f"\n({len(tests) - len(shown)} more tests: --tests 0 shows all)"
    yield "Reference", shortened(problem.reference) or "(none)"
    tiers = problem.hint_tiers or ("",) * len(problem.hints)
    for number, (hint, tier) in enumerate(zip(problem.hints, tiers, strict=True), 1):
        title = f"Hint {number} of {len(problem.hints)}"
        yield f"{title}, {tier}" if tier else title, hint
    if problem.limits is not None:
        limits = problem.limits
        text = f"{limits.cpu_s:g} s, {limits.memory_bytes / 2**20:.0f} MiB"
        yield "Limits of a test", text
    columns = [
        f"{name}: {shortened(str(value), LONGEST_COLUMN)}"
        for name, value in problem.columns.items()
    ]
    if columns:
        yield "Other columns", "\n".join(columns)


def text_of_test(test: Test) -> str:
    """Returns a test as a person would write it.

    Args:
      test: Of any kind.

    Example:
      >>> text_of_test(Test(kind="call", function="f", arguments=(1, 2), expected=[3]))
      'f(1, 2) == [3]'
    """
    if test.kind == "stdin":
        return f"<<< {test.stdin}\n>>> {test.expected}"
    if test.kind == "assert":
        return test.source + ("\n(runs in the program)" if test.is_inside else "")
    arguments = [repr(value) for value in test.arguments]
    arguments += [f"{name}={value!r}" for name, value in test.keywords.items()]
    given = ", ".join(arguments) or ("..." if test.source else "")
    return f"{test.function}({given}) == {test.expected!r}"


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """Returns a text, or its beginning and how much more there is."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text) - longest:,} more characters)"
