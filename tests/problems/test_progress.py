from io import StringIO

from jaxgrpo.problems.progress import ProgressLine, throttled


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_output_has_few_lines_and_the_end():
    out = StringIO()
    line = ProgressLine("Preparing", out)
    for done in range(1, 1001):
        line(done, 1000)
    assert out.getvalue().splitlines() == [
        "Preparing: 1 of 1,000 (0 s)",
        "Preparing: 1,000 of 1,000 (0 s)",
    ]


def test_a_terminal_line_is_rewritten_and_ended():
    out = Terminal()
    line = ProgressLine("Preparing", out)
    line(1, 2)
    line(2, 2)
    assert out.getvalue().count("\r") == 2
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith("Preparing: 2 of 2 (0 s)\n")


def test_an_unknown_total_is_not_shown():
    out = StringIO()
    line = ProgressLine("Preparing", out)
    line(1, 0)
    line(2, 0)
    line(1000, 1000)
    assert out.getvalue().splitlines() == [
        "Preparing: 1 (0 s)",
        "Preparing: 1,000 of 1,000 (0 s)",
    ]


def test_what_comes_too_often_is_not_passed_on():
    calls, times = [], iter([0.0, 0.1, 0.19, 0.2, 0.3, 5.0])
    show = throttled(lambda done, total: calls.append(done), clock=lambda: next(times))
    for done in range(6):
        show(done, 6)
    assert calls == [0, 3, 5]
