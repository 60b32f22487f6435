"""How large an update is: what regrouping may add, cut into equal parts."""

import pytest

from jaxgrpo.config import Config
from jaxgrpo.update_shape import update_shape


def config(*, microbatches: int, minibatches: int = 1, replays: int = 3) -> Config:
    return Config.model_validate(
        {
            "model": {"checkpoint": "builtin:mini_programs_base"},
            "data": {"dataset": "mini_programs"},
            "rewards": {"tests": {"weight": 1.0}},
            "sampling": {"problems_per_step": 4, "group_size": 8},
            "replay": {"method": "samples", "num_replays": replays},
            "objective": {"microbatches": microbatches, "minibatches": minibatches},
        }
    )


@pytest.mark.parametrize(
    ("microbatches", "minibatches", "rows"),
    [(1, 1, 44), (4, 1, 44), (8, 1, 48), (16, 1, 48), (4, 2, 48), (16, 2, 64)],
)
def test_rows_with_replayed_ones_cut_into_equal_parts(
    microbatches: int, minibatches: int, rows: int
) -> None:
    """4 problems of 8 new samples and up to 3 old ones, and what only pads."""
    shape = update_shape(config(microbatches=microbatches, minibatches=minibatches))
    assert shape.num_rows == rows
    assert rows % (microbatches * minibatches) == 0
