import dataclasses

import pytest

from jaxgrpo.device.objective.presets import PRESETS, Objective, resolve_objective


def test_every_published_name_is_there():
    assert set(PRESETS) == {
        "grpo", "dr_grpo", "dapo", "bnpo", "cispo",
        "gspo", "gspo_token", "luspo", "sapo", "rloo",
    }  # fmt: skip


def test_presets_set_advantages_where_the_paper_does():
    assert PRESETS["dr_grpo"].scale == "none"
    assert (PRESETS["rloo"].scale, PRESETS["rloo"].baseline) == (
        "none",
        "leave_one_out",
    )
    assert PRESETS["grpo"].scale == "group"


def test_parts_replace_a_presets_own():
    objective = resolve_objective("dapo", clip_high=0.3)
    assert objective == dataclasses.replace(PRESETS["dapo"].objective, clip_high=0.3)
    assert resolve_objective(objective) == objective


def test_objective_is_hashable():
    assert hash(Objective()) == hash(Objective())


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"clip_low": 1.5}, "clip_low is 1.5. Set it in .0, 1."),
        ({"clip_high": -0.1}, "clip_high is -0.1. Set it at least 0"),
        ({"dual_clip": 1.0}, "dual_clip is 1.0. Set it above 1"),
        ({"delta": 1.1}, "delta is 1.1. Set it above 1 . clip_high"),
        ({"ratio_cap": 0.0}, "ratio_cap is 0.0. Set it above 0"),
        (
            {"correction_min": 3.0},
            "correction_min is 3.0. Set it in .0, correction_max",
        ),
        ({"surrogate": "ppo"}, "surrogate 'ppo' is unknown"),
        ({"ratio_level": "tokens"}, "ratio_level 'tokens' is unknown"),
        ({"aggregation": "mean"}, "aggregation 'mean' is unknown"),
        ({"divergence": "kl"}, "divergence 'kl' is unknown"),
        ({"correction": "token"}, "correction 'token' is unknown"),
        ({"kl_coeff": 0.1}, "Did you mean 'kl_coef'"),
        ({"zzz": 0.1}, "Parts are"),
    ],
)
def test_unusable_part_is_refused_with_its_value(parts, message):
    with pytest.raises(ValueError, match=message):
        resolve_objective("grpo", **parts)
