"""The table [distill]: what is refused, and why."""

from typing import Any

import pytest

from jaxgrpo.config import Config


def config(table: dict[str, Any], **others: dict[str, Any]) -> Config:
    data = {
        "model": {"checkpoint": "builtin:output_prediction_base"},
        "rewards": {"exact": {"weight": 1.0}},
        "distill": table,
    }
    return Config.model_validate(data | others)


def test_it_is_off_by_default():
    assert config({}).distill.at_steps == ()
    assert config({}).num_steps == 100


def test_a_run_of_the_phase_alone_makes_no_step():
    assert config({"at_steps": [0], "only": True}).num_steps == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"epochs": 3}, "distill.epochs 3 has no effect while distill.at_steps is"),
        ({"only": True}, "distill.only True has no effect"),
        ({"at_steps": [10, 5]}, r"at_steps is \[10, 5\], which does not ascend"),
        ({"at_steps": [5, 5]}, "does not ascend"),
        (
            {"at_steps": [10], "only": True},
            r"before its first step.*\[10\]. Set distill",
        ),
        ({"at_steps": [101]}, "goes beyond run.num_steps 100"),
        ({"at_steps": [0], "temperatures": []}, "at least one, and each once"),
        ({"at_steps": [0], "temperatures": [1.0, 1.0]}, "each once"),
        ({"at_steps": [0], "samples_per_problem": 8}, "by the 3 temperatures"),
        ({"at_steps": [-1]}, "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_is_refused(table: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        config(table)


def test_more_problems_than_there_are_is_refused():
    with pytest.raises(
        ValueError, match="num_problems 256 is more than data.num_train"
    ):
        config({"at_steps": [0]}, data={"num_train": 100})


def test_it_has_no_effect_in_a_supervised_run():
    supervised = {"problems_per_batch": 8, "stages": [{"name": "a", "num_steps": 1}]}
    data = {
        "run": {"mode": "supervised"},
        "model": {"checkpoint": "builtin:output_prediction_base"},
        "distill": {"at_steps": [0]},
        "supervised": supervised,
    }
    with pytest.raises(
        ValueError, match=r"distill.at_steps .* has no effect while run"
    ):
        Config.model_validate(data)
