"""`[redistribution]` and `[experimental]`: what is refused, and what a run is told."""

from typing import Any

import pytest
from pydantic import ValidationError

from jaxgrpo.assembly import update_settings
from jaxgrpo.config import Config
from jaxgrpo.config_experimental import CREDITED_PRESETS, TOKEN_PRESETS
from jaxgrpo.config_redistribution import quality_settings
from jaxgrpo.device.objective.presets import PRESETS
from jaxgrpo.host.quality import GRADERS, QualitySettings
from jaxgrpo.policy import load_policy
from jaxgrpo.update_shape import update_shape

MODEL = {"checkpoint": "builtin:mini_programs_base"}


def config(**tables: Any) -> Config:
    given = {
        "model": MODEL,
        "rewards": {"tests": {}},
        "data": {"dataset": "mini_programs"},
        "objective": {"preset": "grpo"},
    }
    return Config.model_validate(given | tables)


def complaint(**tables: Any) -> str:
    """Returns the one line with which a configuration is refused."""
    with pytest.raises(ValidationError) as caught:
        config(**tables)
    (error,) = caught.value.errors()
    return error["msg"]


OUTPUT = {"data": {"dataset": "output_prediction"}, "rewards": {"exact": {}}}
GRADED = {"redistribution": {"graders": ["length"]}}
OAR, SC, TRACE = (
    {"experimental": {"method": name}} for name in ("oar", "sc_grpo", "s_trace")
)


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ({"redistribution": {"floor": 0.2}}, "floor 0.2 has no effect"),
        ({"redistribution": {"cap": 3.0}}, "cap 3.0 has no effect"),
        ({"redistribution": {"graders": ["length"], "floor": 1.0}}, "same quality"),
        ({"redistribution": {"graders": ["ruff", "ruff"]}}, "names one twice"),
        (OUTPUT | {"redistribution": {"graders": ["ruff"]}}, "reads programs"),
        (GRADED | {"sampling": {"group_size": 2}}, "Raise it to 3 or more"),
        (GRADED | {"replay": {"method": "samples"}}, "GAR cannot be combined"),
        (GRADED | {"scaffold": {"tiers": ["solution"]}}, "GAR cannot be combined"),
        ({"experimental": {"boost": 2.0}}, "boost 2.0 has no effect"),
        ({"experimental": {"method": "oar", "exploration": 0.0}}, "has no effect"),
        ({"experimental": {"method": "oar", "masked_at_once": 2}}, "has no effect"),
        ({"experimental": {"method": "oar", "form": "perturbation", "noise": 0.1}},
         "form is 'perturbation'"),
        ({"experimental": {"method": "sc_grpo", "trace_decay": 0.5}}, "has no effect"),
        (OAR | {"objective": {"preset": "gspo"}}, "moves all tokens"),
        (TRACE | {"objective": {"preset": "gspo_token"}}, "ratios of its own"),
        (TRACE | {"objective": {"preset": "cispo"}}, "no effect with objective.preset"),
        (SC | {"sampling": {"group_size": 2}}, "Raise it to 3 or more"),
        (SC | {"dynamic_sampling": {"max_tries": 2}}, "SC-GRPO cannot be combined"),
        (TRACE | {"credit": {"method": "egca"}}, "S-trace cannot be combined"),
        (OAR | {"credit": {"method": "egca"}}, "OAR cannot be combined with EGCA"),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_no_room_is_refused_in_a_line(tables, line):
    message = complaint(**tables)
    assert line in message and "\n" not in message


@pytest.mark.parametrize(
    "more",
    [
        {"objective": {"preset": "cispo", "updates_per_rollout": 2}},
        {"objective": {"preset": "cispo", "minibatches": 2}},
        {"objective": {"preset": "cispo"}, "replay": {"method": "samples"}},
    ],
)
def test_traces_fit_cispo_where_ratios_are_not_all_1(more):
    assert config(**TRACE | more).objective.preset == "cispo"


def test_presets_that_fit_are_those_with_such_ratios():
    by_level = {
        level: {name for name, p in PRESETS.items() if p.objective.ratio_level in level}
        for level in (("token",), ("token", "sequence_token"))
    }
    assert [set(TOKEN_PRESETS), set(CREDITED_PRESETS)] == list(by_level.values())


def test_the_scorer_and_the_update_are_told_of_grades():
    assert quality_settings(config()) is None
    assert not update_shape(config()).has_qualities
    table = {"graders": list(GRADERS), "floor": 0.25, "cap": 3.0}
    chosen = config(redistribution=table)
    settings = quality_settings(chosen)
    assert settings == QualitySettings(graders=tuple(GRADERS), floor=0.25)
    assert update_shape(chosen).has_qualities
    policy = load_policy(chosen.model, chosen.prompt)
    assert update_settings(chosen, policy).quality_cap == 3.0


def test_traces_are_a_part_of_the_objective():
    table = {"method": "s_trace", "trace_decay": 0.5, "trace_share": 0.1}
    chosen = config(experimental=table)
    settings = update_settings(chosen, load_policy(chosen.model, chosen.prompt))
    assert settings.objective.ratio_level == "trace"
    assert (settings.objective.trace_decay, settings.trace_share) == (0.5, 0.1)
    plain = update_settings(config(), load_policy(chosen.model, chosen.prompt))
    assert plain.objective.ratio_level == "token"
