"""What the records of a store depend on, besides the files; and its names."""

from dataclasses import dataclass
from typing import Literal

INEXPRESSIBLE = "_inexpressible"
"""Ending of the splits whose problems cannot be judged apart from the program."""
TESTS_FILE = "tests.bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What the records depend on, besides the files."""

    malformed: Literal["stop", "skip"] = "stop"
    """What a row that is no problem does."""
    max_tests: int = 0
    """Tests kept of a problem; 0 for all."""
    max_test_bytes: int = 0
    """Bytes of a problem's tests; 0 for any number."""
    splits: Literal["published", "hashed"] = "published"
    """Whose splits."""
    validation_fraction: float = 0.0
    """Of the problems, where there is no validation split."""
    test_fraction: float = 0.0
    """Of the problems, where there is no test split."""
    seed: int = 0
    """Of what is drawn where the files hold no answers."""
    per_row: int = 1
    """Problems to make of a row, where it is good for any number."""
