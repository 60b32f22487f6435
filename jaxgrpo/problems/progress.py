"""Progress of a slow preparation, for terminals and for log files."""

import time
from typing import TextIO


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
        self._interval_s = 0.2 if self._is_terminal else 10.0
        self._started = time.monotonic()
        self._last_write = float("-inf")

    def __call__(self, done: int, total: int) -> None:
        """Shows the progress, unless it was shown a moment ago."""
        now = time.monotonic()
        if done < total and now - self._last_write < self._interval_s:
            return
        self._last_write = now
        text = f"{self._label}: {done:,} of {total:,} ({now - self._started:.0f} s)"
        is_last = done >= total
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if is_last else ""))
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()
