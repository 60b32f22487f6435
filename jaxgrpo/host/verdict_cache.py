"""Verdicts already reached, so that a repeated answer is not judged twice."""

from collections import OrderedDict
from dataclasses import dataclass, replace

from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.extraction import Extraction, extract
from jaxgrpo.host.records import Completion, Problem, Span, Verdict
from jaxgrpo.host.trace.steps import COLUMN

PARSING_RULES = ("one_block",)
"""Rules that parse what they extract. That is left to workers: a text may be made to
overtax the parser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a verdict is on: completions with the same key get the same verdict."""

    key: tuple[str | bool, ...]
    extraction: Extraction | None = None
    """Where the answer stands in the text; None where the text itself is the key."""


class VerdictCache:
    """Remembers verdicts by problem and answer, the least recently used lost first.

    Two texts that contain the same answer, by one rule, get the same verdict, whatever
    stands around it. INFRA verdicts are not kept: they speak of us, not of the answer.

    Args:
      max_bytes: Total size, as stated by those who put verdicts in.
      settings: How answers are found in texts.
    """

    def __init__(self, max_bytes: int, settings: JudgeSettings):
        self._max_bytes = max_bytes
        self._settings = settings
        self._num_bytes = 0
        self._entries: OrderedDict[
            tuple[str | bool, ...], tuple[Verdict, int, Extraction | None]
        ] = OrderedDict()

    def subject(self, problem: Problem, completion: Completion) -> Subject:
        """Returns what a verdict on a completion would be on.

        Args:
          problem: Told apart by its id, which is unique.
          completion: With its text.
        """
        text, stop, in_thought = completion.text, completion.stop, completion.in_thought
        rule = self._settings.rule_of(
            problem.kind,
            completion.prompt_variant,
            has_steps=bool(problem.columns.get(COLUMN)),
        )
        markers = self._settings.markers
        if rule not in PARSING_RULES:
            found = extract(
                text, rule, markers=markers, stop=stop, in_thought=in_thought
            )
            if found.answer:
                return Subject(
                    key=(problem.id, "answer", rule, found.answer), extraction=found
                )
        return Subject(key=(problem.id, "text", rule, text, stop, in_thought))

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
    """A place in the answer of one text, in another text with the same answer."""
    if character >= old.end:
        return new.end + character - old.end
    for index in reversed(range(len(old.line_starts))):
        if old.line_starts[index] <= character:
            return new.line_starts[index] + character - old.line_starts[index]
    return new.start + character - old.start
