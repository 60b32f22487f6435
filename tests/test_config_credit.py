"""Credit by execution: what is refused, what the scorer is told, which losses fit."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from jaxgrpo.config import Config, CreditConfig
from jaxgrpo.config_credit import CREDITED_PRESETS, Constraint, blame_settings
from jaxgrpo.device.objective.presets import PRESETS
from jaxgrpo.host.credit.constraints import KINDS
from jaxgrpo.host.credit.settings import LOCALIZATIONS, BlameSettings
from jaxgrpo.host.records import Problem
from jaxgrpo.methods import asked_problem
from jaxgrpo.update_shape import update_shape

EGCA = {"method": "egca"}


def config(credit: dict[str, Any], **tables: Any) -> Config:
    given = {
        "model": {"checkpoint": "builtin:base"},
        "rewards": {"tests": {}},
        "data": {"dataset": "mini_programs"},
        "objective": {"preset": "grpo"},
        "credit": credit,
    }
    return Config.model_validate(given | tables)


def complaint(credit: dict[str, Any], **tables: Any) -> str:
    """Returns the one line with which a configuration is refused."""
    with pytest.raises(ValidationError) as caught:
        config(credit, **tables)
    (error,) = caught.value.errors()
    return error["msg"]


def test_uniform_credit_asks_for_nothing():
    plain = config({})
    assert blame_settings(plain) is None
    assert not update_shape(plain).has_focus


def test_the_scorer_is_told_what_the_table_says():
    credit = {
        "localization": "last", "constraints": ["sorting"], "min_similarity": 0.25,
        "trace_events": 7, "trace_kb": 2, "trace_cpu_s": 0.5,
    }  # fmt: skip
    chosen = config(EGCA | credit, run={"seed": 3})
    settings = blame_settings(chosen)
    assert settings is not None
    limits = settings.limits
    assert (limits.cpu_s, limits.trace_events, limits.trace_bytes) == (0.5, 7, 2048)
    assert limits.wall_s == chosen.scorer.sandbox.wall_s
    assert settings == BlameSettings(
        localization="last", constraints=("sorting",), min_similarity=0.25,
        limits=limits, seed=3, skips_tied=True,
    )  # fmt: skip
    assert update_shape(chosen).has_focus


@pytest.mark.parametrize(
    "tables",
    [
        {"rewards": {"tests": {}, "entropy": {"weight": 0.1}},
         "guard": {"mode": "off"}},
        {"scaffold": {"tiers": ["solution"]}},
        {"replay": {"method": "samples"}},
    ],
    ids=["device reward", "hinted completion", "stored completions"],
)  # fmt: skip
def test_equal_rewards_are_no_reason_to_skip_where_more_decides(tables):
    settings = blame_settings(config(EGCA, **tables))
    assert settings is not None and not settings.skips_tied


def test_the_defaults_of_table_and_scorer_are_one():
    settings = blame_settings(config(EGCA))
    plain = BlameSettings()
    assert settings is not None
    assert settings.constraints == plain.constraints
    assert settings.min_similarity == plain.min_similarity
    assert settings.localization == plain.localization
    table = CreditConfig.model_fields
    assert get_args(table["localization"].annotation) == LOCALIZATIONS
    assert get_args(Constraint) == KINDS


def test_the_presets_that_keep_credit_are_those_whose_loss_does():
    """Divided by the row's length, and with a gradient of its own for each token."""
    fitting = [
        name
        for name, preset in PRESETS.items()
        if preset.objective.aggregation == "sequence_mean"
        and preset.objective.ratio_level in ("token", "sequence_token")
    ]
    assert sorted(CREDITED_PRESETS) == sorted(fitting)


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - set(CREDITED_PRESETS)))
def test_losses_that_would_not_keep_credit_are_refused(preset: str):
    message = complaint(EGCA, objective={"preset": preset})
    assert f"objective.preset {preset!r}" in message
    assert "Set objective.preset to one of grpo, gspo_token, sapo." in message


@pytest.mark.parametrize("preset", CREDITED_PRESETS)
def test_the_others_are_taken(preset: str):
    assert update_shape(config(EGCA, objective={"preset": preset})).has_focus


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        ({"localization": "last"}, "credit.localization 'last' has no effect while "
         "credit.method is 'uniform'"),
        ({"prompt_constraints": True}, "credit.prompt_constraints True has no effect"),
        (EGCA | {"localizer": "m.py:f", "localization": "last"},
         "credit.localization 'last' has no effect while credit.localizer is set"),
        (EGCA | {"extractor": "m.py:f", "constraints": []},
         "credit.constraints () has no effect while credit.extractor is set"),
        (EGCA | {"localization": "none", "trace_kb": 1},
         "credit.trace_kb 1 has no effect while credit.localization is 'none'"),
        (EGCA | {"constraints": [], "prompt_constraints": True},
         "credit.prompt_constraints true has no effect while credit.constraints is"),
        (EGCA | {"constraints": ["imports", "imports"]}, "names one twice"),
        (EGCA | {"localizer": "place"}, "credit.localizer: function 'place' names no"),
        (EGCA | {"trace_cpu_s": 30.0}, "is not below scorer.deadline_s 120.0"),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_cannot_be_is_refused(credit, expected: str):
    assert expected in complaint(credit)


@pytest.mark.parametrize("dataset", ["output_prediction", "trace_prediction", "codeio"])
def test_data_without_programs_is_refused(dataset: str):
    message = complaint(EGCA, data={"dataset": dataset})
    assert f"data.dataset {dataset!r} asks for none" in message


@pytest.mark.parametrize("dataset", ["mbpp", "livecodebench", "file"])
def test_data_with_programs_is_taken(dataset: str):
    data = {"dataset": dataset}
    if dataset == "file":
        data |= {"path": "x.jsonl", "columns": {"prompt": "p"}}
    assert config(EGCA, data=data).data.kinds


def test_supervised_runs_have_no_credit():
    stages = {"stages": [{"name": "one", "num_steps": 10}]}
    message = complaint(
        EGCA, run={"mode": "supervised"}, supervised=stages, rewards={}, objective={}
    )
    assert (
        "credit.method 'egca' has no effect while run.mode is 'supervised'" in message
    )


# Constraints in prompts

PROBLEM = Problem(
    id="p", kind="call", prompt="Add them.", reference="def f(x, y):\n  return x + y\n"
)


def test_prompts_are_plain_by_default():
    assert asked_problem(config({}))(PROBLEM) is PROBLEM
    assert asked_problem(config(EGCA))(PROBLEM) is PROBLEM


def test_prompts_may_tell_the_constraints():
    credit = EGCA | {"prompt_constraints": True, "constraints": ["imports", "sorting"]}
    asked = asked_problem(config(credit))(PROBLEM)
    assert (
        asked.prompt == "Add them.\n\nKeep to this:\n- Import nothing.\n- Do not sort."
    )


def test_prompts_may_tell_constraints_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def listed(problem):\n    return [problem.id + ' is short.', ('x', len)]\n"
        "def broken(problem):\n    raise KeyError(problem.id)\n"
    )
    credit = EGCA | {"prompt_constraints": True}
    own = config(credit | {"extractor": f"{tmp_path}/mine.py:listed"})
    assert asked_problem(own)(PROBLEM).prompt.endswith("this:\n- p is short.\n- x")
    broken = config(credit | {"extractor": f"{tmp_path}/mine.py:broken"})
    with pytest.raises(ValueError, match=r"credit\.extractor: problem 'p': broken"):
        asked_problem(broken)(PROBLEM)


def test_a_reference_that_cannot_be_read_has_no_constraints():
    asked = asked_problem(config(EGCA | {"prompt_constraints": True}))
    odd = Problem(id="p", kind="stdin", prompt="Do.", reference="one two")
    assert asked(odd) is odd


def test_a_template_without_the_prompt_cannot_tell_them():
    credit = EGCA | {"prompt_constraints": True}
    message = complaint(credit, prompt={"template": "{code}"})
    assert "which prompt.template does not have" in message
