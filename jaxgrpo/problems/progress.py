"""Progress of a slow preparation, for terminals and for log files."""

import time
from collections.abc import Callable
from typing import TextIO

_INTERVAL_S = 0.2

Report = Callable[[int, int], None]
"""Told (done, in all) as a data set is prepared; 0 in all where that is not known."""


def throttled(
    report: Report, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int], None]:
    """Returns a report that passes on what comes less than five times a second.

    Args:
      report: Shows the progress; redrawing a bar takes longer than reading a row.
      clock: Seconds, rising.
    """
    last_s = float("-inf")

    def show(done: int, total: int) -> None:
        nonlocal last_s
        now_s = clock()
        if now_s - last_s >= _INTERVAL_S:
            last_s = now_s
            report(done, total)

    return show


class ProgressLine:
    """Writes `label: done of total`: one changing line on a terminal, few lines else.

    At most five writes a second on a terminal, one in ten seconds elsewhere; the first
    and the last are always written.

    Args:
      label: What is being done.
      stream: Where to write.
    """

    def __init__(self, label: str, stream: TextIO):
        self._label = label
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._interval_s = _INTERVAL_S if self._is_terminal else 10.0
        self._started = time.monotonic()
        self._last_write = float("-inf")

    def __call__(self, done: int, total: int) -> None:
        """Shows the progress, unless it was shown a moment ago.

        Args:
          done: How much is done.
          total: Of how much; 0 if that is not known yet.
        """
        now = time.monotonic()
        is_last = 0 < total <= done
        if not is_last and now - self._last_write < self._interval_s:
            return
        self._last_write = now
        of_total = f" of {total:,}" if total else ""
        text = f"{self._label}: {done:,}{of_total} ({now - self._started:.0f} s)"
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if is_last else ""))
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()
