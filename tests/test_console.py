import io
import itertools
import re
import threading

import pytest

from jaxgrpo.console import Console

METRICS = {
    "reward": 0.4123,
    "exact_match": 0.382,
    "frac_reward_zero_std": 0.45,
    "perf/tokens_per_s": 12345.6,
    "loss": 0.1,
}

EVALUATION = {"num_problems": 9, "exact_match": {"value": 0.5, "se": 0.1}}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Ten seconds pass between any two looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")


def shown(stream: io.StringIO) -> str:
    """Returns what a terminal would have been sent, without the control codes."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_without_a_terminal_each_step_is_a_plain_line():
    stream = io.StringIO()
    with Console("auto", 300, stream=stream, clock=Clock()) as console:
        console.step(1, METRICS)
        console.step(2, METRICS | {"eval/exact_match": 0.41})
        console.step(3, METRICS)
    assert stream.getvalue().splitlines() == [
        "step   1/300  reward 0.412  exact 38.2 %  dead 45 %  12,346 tok/s",
        "step   2/300  reward 0.412  exact 38.2 %  val 41.0 %  dead 45 %  "
        "12,346 tok/s  ETA 49:40",
        "step   3/300  reward 0.412  exact 38.2 %  dead 45 %  12,346 tok/s  ETA 49:30",
    ]


def test_a_terminal_gets_a_bar_and_the_same_numbers():
    stream = Terminal()
    with Console("auto", 300, stream=stream, clock=Clock()) as console:
        console.step(149, METRICS)
        console.step(150, METRICS)
    text = shown(stream)
    assert "step 150/300 ━━━" in text
    assert "reward 0.412  exact 38.2 %  dead 45 %  12,346 tok/s  ETA 25:00" in text


def test_all_numbers_fit_into_eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with Console("rich", 300, stream=stream, clock=Clock()) as console:
        console.step(1, METRICS)
        console.step(2, METRICS | {"eval/exact_match": 0.41})
    assert "12,346 tok/s  ETA 49:40" in shown(stream)


def test_the_terminal_is_left_as_it_was():
    stream = Terminal()
    with Console("rich", 3, stream=stream) as console:
        console.step(1, METRICS)
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h")


def test_no_thread_runs_behind_the_bar():
    before = threading.active_count()
    with Console("rich", 3, stream=Terminal()) as console:
        console.step(1, METRICS)
        assert threading.active_count() == before


def test_a_resumed_run_judges_the_time_left_by_its_own_steps():
    stream = io.StringIO()
    with Console("plain", 100, stream=stream, clock=Clock()) as console:
        console.step(91, METRICS)
        console.step(92, METRICS)
    assert stream.getvalue().splitlines()[-1].endswith("ETA 1:20")


def test_an_imitation_run_shows_its_loss():
    stream = io.StringIO()
    with Console("plain", 10, stream=stream) as console:
        console.step(1, {"loss": 1.5, "perf/trained_tokens_per_s": 10.0})
    assert stream.getvalue() == "step  1/10  loss 1.5000  10 tok/s\n"


def test_a_number_that_does_not_exist_is_a_dash():
    stream = io.StringIO()
    with Console("plain", 10, stream=stream) as console:
        console.step(1, {"reward": float("nan")})
    assert stream.getvalue() == "step  1/10  reward -\n"


@pytest.mark.parametrize("mode", ["rich", "plain", "quiet"])
def test_warnings_are_shown_in_every_mode_as_written(mode):
    stream = io.StringIO()
    with Console(mode, 3, stream=stream) as console:
        console.step(1, METRICS)
        console.warn("gap of [0.3] nats [red]")
    assert "warning: gap of [0.3] nats [red]\n" in shown(stream)


def test_quiet_shows_neither_steps_nor_notes():
    stream = io.StringIO()
    with Console("quiet", 3, stream=stream) as console:
        console.step(1, METRICS)
        console.note("hello")
        console.counter("evaluating")(1, 2)
    assert stream.getvalue() == ""


def test_a_plain_counter_speaks_four_times_with_rate_and_time_left():
    stream = io.StringIO()
    ticks = itertools.count(0.0, 0.5)
    with Console("plain", 3, stream=stream, clock=lambda: next(ticks)) as console:
        show = console.counter("evaluating")
        for done in range(101):
            show(done, 100)
    assert stream.getvalue().splitlines() == [
        "evaluating: 25/100, 2/s, 0:38 left",
        "evaluating: 50/100, 2/s, 0:25 left",
        "evaluating: 75/100, 2/s, 0:12 left",
        "evaluating: 100/100, 2/s",
    ]


def test_a_rate_leaves_out_what_another_process_did():
    stream = io.StringIO()
    times = iter([10.0, 14.0])
    with Console("plain", 3, stream=stream, clock=lambda: next(times)) as console:
        show = console.counter("evaluating")
        show(60, 100)
        show(100, 100)
    assert stream.getvalue().splitlines()[-1] == "evaluating: 100/100, 10/s"


def test_a_plain_counter_of_unknown_total_speaks_at_doublings():
    stream = io.StringIO()
    with Console("plain", 3, stream=stream, clock=lambda: 0.0) as console:
        show = console.counter("preparing")
        for done in range(1, 2100):
            show(done, 0)
    assert stream.getvalue().splitlines() == [
        f"preparing: {done}" for done in (512, 1024, 2048)
    ]


def test_a_counter_of_unknown_total_shows_what_is_done():
    stream = Terminal()
    with Console("rich", 3, stream=stream) as console:
        console.counter("preparing")(7, 0)
        assert re.search(r"preparing 7(?![/\d])", shown(stream))


def test_a_counter_on_a_terminal_disappears_when_it_is_done():
    stream = Terminal()
    with Console("rich", 3, stream=stream) as console:
        show = console.counter("evaluating")
        show(1, 2)
        assert "evaluating 1/2" in shown(stream)
        show(2, 2)
        start = len(stream.getvalue())
        console.step(1, METRICS)
    assert "evaluating" not in stream.getvalue()[start:]


@pytest.mark.parametrize("mode", ["rich", "plain", "quiet"])
def test_the_final_table_is_shown_in_every_mode(mode):
    stream = io.StringIO()
    with Console(mode, 3, stream=stream) as console:
        console.step(1, METRICS)
        text = console.table({"before": EVALUATION, "after": EVALUATION}, "Test split")
    assert text.startswith("|") and "exact match, greedy" in text
    assert "Test split" in shown(stream)
    assert re.search(r"exact match, greedy.*50\.0 ± 10\.0 %.*\+0\.0", shown(stream))
