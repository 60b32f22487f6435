"""One small data set for all tests of problems."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.config import DataConfig
from jaxgrpo.host.records import Problem
from jaxgrpo.problems.datasets import load_problems

SIZES: dict[str, Any] = {"num_train": 300, "num_validation": 16, "num_test": 40}

LoadSplit = Callable[[str], Sequence[Problem]]


@pytest.fixture(scope="session")
def load_split(session_cache: Path) -> LoadSplit:
    """Returns a split of a small `output_prediction`, prepared once."""

    def load(split: str) -> Sequence[Problem]:
        data = DataConfig(cache_dir=str(session_cache), build_workers=1, **SIZES)
        return load_problems(data, split)

    return load


@pytest.fixture(scope="session")
def load_mini_split(session_cache: Path) -> LoadSplit:
    """Returns a split of a small `mini_programs`, prepared once."""

    def load(split: str) -> Sequence[Problem]:
        data = DataConfig(
            dataset="mini_programs",
            cache_dir=str(session_cache),
            build_workers=1,
            **SIZES,
        )
        return load_problems(data, split)

    return load
