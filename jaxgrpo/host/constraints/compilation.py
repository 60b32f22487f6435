"""From constraints and a vocabulary to the tables that the device reads."""

from collections.abc import Sequence
from pathlib import Path

from jaxgrpo.host.constraints.byte_automaton import ByteAutomaton, joined
from jaxgrpo.host.constraints.closing import NEVER, closing_costs
from jaxgrpo.host.constraints.json_value import json_value
from jaxgrpo.host.constraints.markers import (
    after_special_token,
    after_text,
    after_whitespace,
    anything,
    followed_by,
    nothing,
)
from jaxgrpo.host.constraints.python_literal import python_literal
from jaxgrpo.host.constraints.regular import any_of, literal, regular
from jaxgrpo.host.constraints.regular_process import regular_in_time
from jaxgrpo.host.constraints.specification import Constraint
from jaxgrpo.host.constraints.stack_moves import BOTTOM
from jaxgrpo.host.constraints.table_cache import cached_tables
from jaxgrpo.host.constraints.token_tables import TokenTables, token_tables
from jaxgrpo.host.constraints.vocabulary import Vocabulary

_NESTED = {"python_literal": python_literal, "json": json_value}


def compile_constraints(
    constraints: Sequence[Constraint],
    vocabulary: Vocabulary,
    *,
    num_logits: int,
    cache_folder: Path,
) -> TokenTables:
    """Returns the tables of some constraints, from the disk if they are there.

    Constraint k of the tables is the k-th here, counted from 1; 0 allows everything.
    All share the states, classes and effects of one table, so that rows of a batch may
    have different ones.

    Compiling takes a second for a literal and 151,936 tokens, more for a pattern of
    thousands of states.

    Args:
      constraints: Any number.
      vocabulary: What the tokens write.
      num_logits: V, the width of the model's output; at least the vocabulary's size.
      cache_folder: Keeps tables, one file for each call that differs. A file that
        cannot be read is made anew.

    Raises:
      ValueError: A pattern or a marker cannot be used, the vocabulary does not fit the
        output or cannot write the values, or the table is too large.
      OSError: The folder cannot be written to.
    """

    def build() -> TokenTables:
        automata = [text_automaton(one, vocabulary) for one in constraints]
        whole = joined([nothing(), anything(), *automata])
        return token_tables(whole, vocabulary, num_logits)

    return cached_tables(build, cache_folder, constraints, vocabulary, num_logits)


def check_pattern(constraint: Constraint) -> None:
    """Compiles the regular expression of a constraint, if it has one.

    Raises:
      ValueError: It cannot be compiled, takes too long, or needs too many states.
    """
    if constraint.pattern:
        regular_in_time(constraint.pattern)


def text_automaton(constraint: Constraint, vocabulary: Vocabulary) -> ByteAutomaton:
    """Returns the automaton of the texts that a constraint allows.

    Args:
      constraint: With or without markers.
      vocabulary: Says which markers are special tokens.

    Raises:
      ValueError: A pattern or a marker cannot be used, or the vocabulary cannot write
        the values.
    """
    _check_markers(constraint, vocabulary)
    value = _value_automaton(constraint)
    costs = closing_costs(value, vocabulary.single_bytes())
    if costs.own_AZ[value.starts[0], BOTTOM] >= NEVER:
        raise ValueError(
            f"the vocabulary has no tokens of single bytes that write a value of the "
            f"constraint {constraint.kind!r}. Use a byte-level tokenizer, as those of "
            "Qwen, Llama 3 and GPT-2 are."
        )
    if not constraint.after:
        return value
    value = after_whitespace(value)
    if constraint.after in vocabulary.special_ids:
        return after_special_token(value, vocabulary.special_ids[constraint.after])
    return after_text(value, constraint.after.encode())


def _value_automaton(constraint: Constraint) -> ByteAutomaton:
    """Returns the automaton of the value and what must follow it."""
    if constraint.kind == "choice":
        return regular(f"(?:{any_of(constraint.choices)}){literal(constraint.until)}")
    if constraint.kind == "regex":
        check_pattern(constraint)  # by itself, so that an error names it alone
        if not constraint.until:
            return regular_in_time(constraint.pattern)
        return regular_in_time(f"(?:{constraint.pattern}){literal(constraint.until)}")
    automaton = _NESTED[constraint.kind]()
    if not constraint.until:
        return automaton
    return followed_by(automaton, constraint.until.encode())


def _check_markers(constraint: Constraint, vocabulary: Vocabulary) -> None:
    if vocabulary.special_ids.get(constraint.after) in vocabulary.eos_ids:
        raise ValueError(
            f"a value cannot begin after {constraint.after!r}, which ends the "
            "completion. Name another marker."
        )
    if constraint.until in vocabulary.special_ids:
        raise ValueError(
            f"the closing marker {constraint.until!r} is a special token, which writes "
            "no text. Leave it empty: the end of the completion follows the value."
        )
