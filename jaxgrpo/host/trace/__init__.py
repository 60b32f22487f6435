"""Traces of a candidate and its reference compared, and found again in the text."""

from jaxgrpo.host.trace.divergence import (
    Divergence,
    any_boundary,
    any_divergence,
    divergences,
    earliest,
    last,
    result_boundary,
)
from jaxgrpo.host.trace.spans import exception_span, line_starts, statement_span

__all__ = [
    "Divergence",
    "any_boundary",
    "any_divergence",
    "divergences",
    "earliest",
    "exception_span",
    "last",
    "line_starts",
    "result_boundary",
    "statement_span",
]
