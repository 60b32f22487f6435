"""Token constraints: the form that completions must have, compiled to tables.

The path: `parse_constraint` reads what a configuration asks for; its grammar becomes
an automaton over bytes with a stack of open brackets (`python_literal`, `json_value`,
`regular`, and `markers` around them); `token_walk` finds what each token of a
vocabulary does in each state; `token_tables` merges tokens that act alike into classes.
"""

from jaxgrpo.host.constraints.compilation import check_pattern, compile_constraints
from jaxgrpo.host.constraints.specification import Constraint, parse_constraint
from jaxgrpo.host.constraints.token_tables import TokenTables
from jaxgrpo.host.constraints.vocabulary import Vocabulary, vocabulary_of

__all__ = [
    "Constraint",
    "TokenTables",
    "Vocabulary",
    "check_pattern",
    "compile_constraints",
    "parse_constraint",
    "vocabulary_of",
]
