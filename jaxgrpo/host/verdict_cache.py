"""Verdicts already reached, so that a repeated program is not judged twice."""

from collections import OrderedDict
from dataclasses import dataclass, replace

from jaxgrpo.host.judge import SANDBOXED_KINDS
from jaxgrpo.host.judge.extraction import Extraction, extract
from jaxgrpo.host.records import Problem, Span, Verdict

PARSING_RULES = ("one_block",)
"""Rules that parse what they extract. That is left to workers: a text may be made to
overtax the parser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a verdict is on: texts with the same key get the same verdict."""

    key: tuple[str, str, str]
    extraction: Extraction | None = None
    """Where the program stands in the text; None where the text itself is the key."""


class VerdictCache:
    """Remembers verdicts by problem and program, the least recently used lost first.

    Two texts that contain the same program get the same verdict, whatever stands around
    it. INFRA verdicts are not kept: they speak of us, not of the program.

    Args:
      max_bytes: Total size, as stated by those who put verdicts in.
      extraction: Rule by which programs are found in texts.
    """

    def __init__(self, max_bytes: int, extraction: str):
        self._max_bytes = max_bytes
        self._extraction = extraction
        self._num_bytes = 0
        self._entries: OrderedDict[
            tuple[str, str, str], tuple[Verdict, int, Extraction | None]
        ] = OrderedDict()

    def subject(self, problem: Problem, text: str) -> Subject:
        """Returns what a verdict on a text would be on.

        Args:
          problem: Told apart by its id, which is unique.
          text: The completion's.
        """
        if problem.kind in SANDBOXED_KINDS and self._extraction not in PARSING_RULES:
            found = extract(text, self._extraction)
            if found.code:
                return Subject(
                    key=(problem.id, "program", found.code), extraction=found
                )
        return Subject(key=(problem.id, "text", text))

    def get(self, subject: Subject) -> Verdict | None:
        """Returns the verdict on a subject, or None if it is not known.

        Its spans are those of the text that is asked about.
        """
        entry = self._entries.get(subject.key)
        if entry is None:
            return None
        self._entries.move_to_end(subject.key)
        verdict, _, extraction = entry
        if extraction is None or extraction == subject.extraction:
            return verdict
        assert subject.extraction is not None, "keys of one kind do not meet the other"
        spans = [
            Span(
                start=_moved(span.start, extraction, subject.extraction),
                end=_moved(span.end, extraction, subject.extraction),
                label=span.label,
            )
            for span in verdict.spans
        ]
        return replace(verdict, spans=tuple(spans))

    def put(self, subject: Subject, verdict: Verdict, size: int) -> None:
        """Remembers a verdict.

        Args:
          subject: What it is on.
          verdict: The judge's.
          size: Bytes that remembering it takes, roughly.
        """
        if verdict.status == "INFRA" or size > self._max_bytes:
            return
        _, old_size, _ = self._entries.pop(subject.key, (None, 0, None))
        self._entries[subject.key] = (verdict, size, subject.extraction)
        self._num_bytes += size - old_size
        while self._num_bytes > self._max_bytes:
            _, (_, old_size, _) = self._entries.popitem(last=False)
            self._num_bytes -= old_size


def _moved(character: int, old: Extraction, new: Extraction) -> int:
    """A place in the code of one text, in another text with the same code."""
    if character >= old.end:
        return new.end + character - old.end
    for index in reversed(range(len(old.line_starts))):
        if old.line_starts[index] <= character:
            return new.line_starts[index] + character - old.line_starts[index]
    return new.start + character - old.start
