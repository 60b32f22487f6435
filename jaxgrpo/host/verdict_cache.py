"""Verdicts already reached, so that a repeated completion is not judged twice."""

from collections import OrderedDict

from jaxgrpo.host.records import Problem, Verdict


class VerdictCache:
    """Remembers verdicts by problem and text, the least recently used forgotten first.

    INFRA verdicts are not kept: they speak of us, not of the completion.

    Args:
      max_bytes: Total size, as stated by those who put verdicts in.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[tuple[str, str], tuple[Verdict, int]] = OrderedDict()

    def get(self, problem: Problem, text: str) -> Verdict | None:
        """Returns the verdict on a text, or None if it is not known.

        Args:
          problem: Told apart by its id, which is unique.
          text: The completion's.
        """
        entry = self._entries.get((problem.id, text))
        if entry is None:
            return None
        self._entries.move_to_end((problem.id, text))
        return entry[0]

    def put(self, problem: Problem, text: str, verdict: Verdict, size: int) -> None:
        """Remembers a verdict.

        Args:
          problem: The problem.
          text: The completion's.
          verdict: The judge's.
          size: Bytes that remembering it takes, roughly.
        """
        if verdict.status == "INFRA" or size > self._max_bytes:
            return
        _, old_size = self._entries.pop((problem.id, text), (None, 0))
        self._entries[problem.id, text] = (verdict, size)
        self._num_bytes += size - old_size
        while self._num_bytes > self._max_bytes:
            _, (_, old_size) = self._entries.popitem(last=False)
            self._num_bytes -= old_size
