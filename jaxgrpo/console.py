"""What a run shows while it runs: a progress bar on a terminal, else plain lines."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, Literal, Self

from rich import box
from rich.console import Console as RichConsole
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from jaxgrpo.report.evaluation_table import (
    Evaluation,
    TextTable,
    evaluation_table,
    markdown,
)

ConsoleMode = Literal["auto", "rich", "plain", "quiet"]

_SHOWN: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("loss", lambda x: f"loss {x:.4f}"),
    ("reward", lambda x: f"reward {x:.3f}"),
    ("exact_match", lambda x: f"exact {100 * x:.1f} %"),
    ("accuracy", lambda x: f"right order {100 * x:.0f} %"),
    ("eval/exact_match", lambda x: f"val {100 * x:.1f} %"),
    ("eval/auc_within", lambda x: f"val AUC {x:.3f}"),
    ("frac_reward_zero_std", lambda x: f"dead {100 * x:.0f} %"),
    ("perf/tokens_per_s", lambda x: f"{x:,.0f} tok/s"),
    ("perf/trained_tokens_per_s", lambda x: f"{x:,.0f} tok/s"),
)
"""Metrics of the status line, in order, and how each is written."""

_KEPT = ("eval/exact_match", "eval/auc_within")
"""In the status line until the next value: they are measured in some steps only."""

_ETA_STEPS = 20
"""The time left is judged by the last steps; the first ones compile."""


class Console:
    """Shows the progress of a run. Close it, or use `with`.

    Refreshes only when it is called: there is no timer behind it.

    Args:
      mode: `auto` is `rich` where the stream is a terminal and `plain` elsewhere;
        `quiet` shows only warnings and the final table.
      num_steps: Steps of the whole run.
      stream: Where to write; None is standard output.
      clock: Seconds, rising.
    """

    def __init__(
        self,
        mode: ConsoleMode,
        num_steps: int,
        *,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stdout if stream is None else stream
        if mode == "auto":
            mode = "rich" if self._stream.isatty() else "plain"
        self._mode = mode
        self._num_steps = num_steps
        self._clock = clock
        self._times: deque[tuple[int, float]] = deque(maxlen=_ETA_STEPS + 1)
        self._kept: dict[str, float] = {}
        self._rich = RichConsole(
            file=self._stream, force_terminal=True if mode == "rich" else None
        )
        self._progress = _Bars(self._rich) if mode == "rich" else None
        self._training: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the progress display and leaves the terminal as it was."""
        if self._progress is not None:
            self._progress.stop()

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Shows a finished step.

        Args:
          step: Updates made so far, of `num_steps`.
          metrics: By the names of the metric log; what is absent is not shown.
        """
        self._times.append((step, self._clock()))
        self._kept |= {name: metrics[name] for name in _KEPT if name in metrics}
        if self._mode == "plain":
            width, status = len(str(self._num_steps)), "  ".join(self._status(metrics))
            self._print(f"step {step:{width}}/{self._num_steps}  {status}")
        if self._progress is None:
            return
        if self._training is None:
            self._training = self._progress.add_task(
                "step", total=self._num_steps, rate=""
            )
            self._progress.start()
        status = "  ".join(self._status({**self._kept, **metrics}))
        self._progress.status = status
        self._progress.update(self._training, completed=step)
        self._progress.refresh()

    def note(self, text: str) -> None:
        """Shows a line of information."""
        if self._mode != "quiet":
            self._print(text)

    def warn(self, text: str) -> None:
        """Shows a line that asks for attention, in every mode."""
        if self._progress is not None:
            self._rich.print(Text(f"warning: {text}", style="yellow"))
        else:
            self._print(f"warning: {text}")

    def counter(self, title: str) -> Callable[[int, int], None]:
        """Returns a function of (done, total) that shows how far a long task is.

        The total is 0 while it is not known.

        Args:
          title: What is being done, such as `evaluating`.
        """
        if self._progress is not None:
            return _bar_counter(self._progress, title, self._clock)
        if self._mode == "plain":
            return _line_counter(self._print, title, self._clock)
        return lambda done, total: None

    def table(self, evaluations: Mapping[str, Evaluation], title: str = "") -> str:
        """Shows evaluations side by side, in every mode.

        Args:
          evaluations: By column title in order, such as before, after, reference.
          title: Heading of the table.

        Returns:
          The table as Markdown.
        """
        return self.text_table(evaluation_table(evaluations), title)

    def text_table(self, table: TextTable, title: str = "") -> str:
        """Shows a table, in every mode.

        Args:
          table: Of finished text.
          title: Heading of the table.

        Returns:
          The table as Markdown.
        """
        self.close()
        text = markdown(table)
        if self._mode != "rich":
            self._print(f"{title}\n{text}" if title else text)
            return text
        shown = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
        for i, name in enumerate(table.header):
            style = "bold" if name == "after" else ""
            justify = "left" if i == 0 else "right"
            shown.add_column(name, justify=justify, style=style, no_wrap=i > 0)
        for row in table.rows:
            shown.add_row(*row)
        self._rich.print(shown)
        return text

    def _print(self, text: str) -> None:
        if self._progress is not None:
            self._rich.print(Text(text))
            return
        # A pipe may be read while the run goes on.
        print(text, file=self._stream, flush=True)

    def _status(self, metrics: Mapping[str, float]) -> list[str]:
        parts = [
            write(metrics[name]) if math.isfinite(metrics[name]) else f"{name} -"
            for name, write in _SHOWN
            if name in metrics and not _is_redundant(name, metrics)
        ]
        return [*parts, *self._time_left()]

    def _time_left(self) -> list[str]:
        (first_step, first), (last_step, last) = self._times[0], self._times[-1]
        if last_step == first_step:
            return []
        seconds = (last - first) / (last_step - first_step)
        return [f"ETA {_duration(seconds * (self._num_steps - last_step))}"]


def _is_redundant(name: str, metrics: Mapping[str, float]) -> bool:
    # The loss of policy gradients says nothing about progress; that of imitation does.
    if name == "loss":
        return "reward" in metrics
    return name == "perf/trained_tokens_per_s" and "perf/tokens_per_s" in metrics


class _Bars(Progress):
    """Progress bars, and a line of numbers below them."""

    def __init__(self, console: RichConsole) -> None:
        self.status = ""
        super().__init__(
            _Count(),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[rate]}"),
            console=console,
            auto_refresh=False,
            expand=True,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yields the bars and the line of numbers."""
        yield self.make_tasks_table(self.tasks)
        if self.status:
            yield Text(self.status, no_wrap=True, overflow="ellipsis")


class _Count(ProgressColumn):
    """What is done, how much of it, and of how much if that is known."""

    def render(self, task: Task) -> Text:
        """Returns the text of a task."""
        of_total = f"/{task.total:.0f}" if task.total else ""
        return Text(f"{task.description} {task.completed:.0f}{of_total}")


class _Rate:
    """How fast a task goes, from the second call on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first: tuple[int, float] | None = None

    def text(self, done: int, total: int) -> str:
        """Returns things per second and the time left; nothing at first.

        What was done before the first call, by another process, does not count.
        """
        now = self._clock()
        if self._first is None:
            self._first = (done, now)
        first, begun = self._first
        if done <= first or now <= begun:
            return ""
        rate = (done - first) / (now - begun)
        left = f", {_duration((total - done) / rate)} left" if done < total else ""
        return f"{rate:,.0f}/s{left}" if rate >= 10 else f"{rate:.2g}/s{left}"


def _bar_counter(
    progress: Progress, title: str, clock: Callable[[], float]
) -> Callable[[int, int], None]:
    task = progress.add_task(title, total=None, visible=False, rate="")
    rate = _Rate(clock)

    def show(done: int, total: int) -> None:
        progress.start()
        progress.update(
            task,
            completed=done,
            total=total or None,
            visible=not total or done < total,
            rate=rate.text(done, total),
        )
        progress.refresh()

    return show


def _line_counter(
    print_line: Callable[[str], Any], title: str, clock: Callable[[], float]
) -> Callable[[int, int], None]:
    shown = 0
    rate = _Rate(clock)

    def show(done: int, total: int) -> None:
        nonlocal shown
        speed = rate.text(done, total)
        # Quarters; doublings from 512 on where the total is not known.
        level = 4 * done // total if total else max(done.bit_length() - 9, 0)
        if level > shown:
            shown = level
            count = f"{done}/{total}" if total else f"{done}"
            print_line(f"{title}: {count}" + (f", {speed}" if speed else ""))

    return show


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"
