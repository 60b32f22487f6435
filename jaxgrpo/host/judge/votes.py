"""Which completions say the same: what a vote among samples counts together.

No vote looks at what was expected. Otherwise all right answers would agree by
construction, and a majority of them would be no finding.
"""

import hashlib
from collections.abc import Hashable, Sequence

from jaxgrpo.host.judge.literal_values import readings, value_key
from jaxgrpo.host.records import CallResult, ProblemKind, TestResult, Verdict

PROGRAM_KINDS: tuple[ProblemKind, ...] = ("stdin", "call", "assert")
"""Kinds of problems that are answered by a program."""


def vote_of(kind: ProblemKind, verdict: Verdict) -> str:
    """Returns a key that is equal for completions that vote for the same answer.

    An answer in words votes for its value where it is a literal, so that `[1,2]` and
    `[1, 2]` agree, and else for its text. A program votes for what it gave on the
    inputs of all tests, whether it was expected or not; where that is not seen (asserts
    that are decided in another process, tests that were left out), for its source.

    Args:
      kind: Of the problem.
      verdict: On the completion.

    Returns:
      Empty where there is no answer: such a completion does not vote.

    Example:
      >>> spelled = [Verdict(status="WA", error_class="", extracted=text)
      ...            for text in ("[1,2]", "[1, 2]", "[2, 1]", "")]
      >>> keys = [vote_of("output", verdict) for verdict in spelled]
      >>> keys[0] == keys[1], keys[1] == keys[2], keys[3]
      (True, False, '')

    Reference:
      Wang et al., Self-Consistency, 2023, https://arxiv.org/abs/2203.11171 (answers);
      Li et al., AlphaCode, 2022, https://arxiv.org/abs/2203.07814 (programs by what
      they give; there on inputs that a model made up, here on those of the tests).
    """
    text = verdict.extracted.strip()
    if not text:
        return ""
    if kind not in PROGRAM_KINDS:
        values = readings(text)[:1]
        if not values:
            return _digest("text", text)
        return _digest("value", _text(value_key(values[0])))
    behaviour = [_behaviour(result) for result in verdict.results]
    is_seen = len(behaviour) == verdict.num_tests > 0 and all(behaviour)
    return _digest("gave", *behaviour) if is_seen else _digest("text", text)


def key_of_output(text: str) -> str:
    """Returns the `output_key` of standard output; white space only separates.

    Args:
      text: All that was printed.
    """
    return _digest("printed", *text.split())


def key_of_calls(calls: Sequence[CallResult]) -> str:
    """Returns the `output_key` of the values of some calls.

    Args:
      calls: Of one test. Empty if one of them gave no value.
    """
    if any(call.status != "OK" for call in calls):
        return ""
    return _digest("returned", *(_text(value_key(call.value)) for call in calls))


def _behaviour(result: TestResult) -> str:
    """What a program did in a test; empty where that is not seen."""
    if result.output_key or result.status in ("OK", "INFRA"):
        return result.output_key
    if result.error_class == "wrong_answer":
        return ""
    raised = result.exception.type_name if result.exception else ""
    return _digest("failed", result.error_class, raised)


def _text(key: Hashable) -> str:
    """A value's key as text, the same in every process."""
    match key:
        case frozenset():
            return "{" + ",".join(sorted(map(_text, key))) + "}"
        case tuple():
            return "(" + ",".join(map(_text, key)) + ")"
        case int() if type(key) is int:
            return hex(key)  # decimals of a huge number are refused
    return repr(key)


def _digest(*parts: str) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
