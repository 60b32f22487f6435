"""One small data set for all tests of problems."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.datasets import load_problems

SIZES: dict[str, Any] = {"num_train": 300, "num_validation": 16, "num_test": 40}

LoadSplit = Callable[[str], Sequence[Problem]]


@pytest.fixture(scope="session")
def load_split(session_cache: Path) -> LoadSplit:
    """Returns a split of a small `output_prediction`, prepared once."""

    def load(split: str) -> Sequence[Problem]:
        return load_problems(
            "output_prediction",
            split,
            cache_dir=session_cache,
            seed=0,
            build_workers=1,
            **SIZES,
        )

    return load
