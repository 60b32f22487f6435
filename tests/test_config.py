"""Loading a configuration, and every way to get one wrong."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from jaxgrpo.config import Config
from jaxgrpo.config_loading import (
    ConfigError,
    config_to_toml,
    find_config,
    load_config,
    shipped_configs,
)
from jaxgrpo.host.rewards import reward_names

GRPO = """
[run]
num_steps = 40
[model]
checkpoint = "builtin:base"
[rewards.exact]
weight = 1.0
"""

SUPERVISED = """
[run]
mode = "supervised"
[model]
preset = "tiny"
tokenizer = "builtin:tokenizer"
[[supervised.stages]]
name = "clean"
num_steps = 10
[[supervised.stages]]
name = "mixed"
num_steps = 5
targets = "mixed"
share = 0.5
"""


@pytest.fixture
def grpo_file(tmp_path: Path) -> Path:
    path = tmp_path / "grpo.toml"
    path.write_text(GRPO)
    return path


@pytest.fixture
def supervised_file(tmp_path: Path) -> Path:
    path = tmp_path / "supervised.toml"
    path.write_text(SUPERVISED)
    return path


SEED = "expected integer >= 0 and < 4294967296"


def complaint(path: Path, *overrides: str) -> str:
    """Returns the one line with which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, list(overrides))
    message = str(caught.value)
    assert "\n" not in message
    return message


# Loading


def test_file_values_and_defaults_are_loaded(grpo_file: Path):
    config = load_config(grpo_file)
    assert config.run.num_steps == 40
    assert config.sampling.group_size == 8
    assert config.batch_size == 64 * 8


def test_lists_of_toml_become_tuples(supervised_file: Path):
    config = load_config(supervised_file, ["evaluation.pass_at=[1, 2]"])
    assert config.evaluation.pass_at == (1, 2)
    assert [stage.name for stage in config.supervised.stages] == ["clean", "mixed"]


def test_config_is_frozen(grpo_file: Path):
    config = load_config(grpo_file)
    with pytest.raises(ValidationError, match="frozen"):
        config.run.seed = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_whole_number_is_taken_for_a_real_one(grpo_file: Path):
    config = load_config(grpo_file, ["optimizer.clip_norm=2"])
    assert config.optimizer.clip_norm == 2.0


@pytest.mark.parametrize("text", [GRPO, SUPERVISED])
def test_written_config_loads_to_an_equal_one(tmp_path: Path, text: str):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(text)
    config = load_config(first, ['prompt.system="a \\"b\\"\\n\\u00e9"', "run.seed=7"])
    second.write_text(config_to_toml(config))
    assert load_config(second) == config


# Overrides


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("log.console=plain", "plain"),
        ('log.console="plain"', "plain"),
        ("log.console = plain ", "plain"),
    ],
)
def test_text_may_go_without_quotes(grpo_file: Path, override: str, value: str):
    assert load_config(grpo_file, [override]).log.console == value


def test_text_may_hold_an_equals_sign(grpo_file: Path):
    config = load_config(grpo_file, ["prompt.system=x=1"])
    assert config.prompt.system == "x=1"


def test_line_break_cannot_smuggle_in_a_key(grpo_file: Path):
    config = load_config(grpo_file, ["prompt.system=1\nseed = 2"])
    assert config.prompt.system == "1\nseed = 2"


def test_later_override_wins(grpo_file: Path):
    config = load_config(grpo_file, ["run.seed=1", "run.seed=2"])
    assert config.run.seed == 2


def test_override_may_add_a_reward(grpo_file: Path):
    name = next(name for name in reward_names() if name != "exact")
    config = load_config(grpo_file, [f"rewards.{name}.weight=0.5"])
    assert config.rewards[name].weight == 0.5
    assert list(config.rewards) == ["exact", name]


def test_override_reaches_into_a_list(supervised_file: Path):
    config = load_config(supervised_file, ["supervised.stages.1.num_steps=3"])
    assert [stage.num_steps for stage in config.supervised.stages] == [10, 3]


@pytest.mark.parametrize("override", ["seed", "=1", "run.=1", ".seed=1"])
def test_malformed_override_is_refused(grpo_file: Path, override: str):
    assert f"{override!r} is no override" in complaint(grpo_file, override)


def test_override_below_a_value_is_refused(tmp_path: Path):
    path = tmp_path / "seed.toml"
    path.write_text("run = {seed = 1}")
    message = complaint(path, "run.seed.x=1")
    assert message.startswith("command line: run.seed is the value 1 and has no fields")


def test_override_beyond_a_list_is_refused(supervised_file: Path):
    message = complaint(supervised_file, "supervised.stages.2.num_steps=3")
    assert "no entry '2', its length is 2" in message


# Unknown keys and wrong types: the field, the value, the fix


@pytest.mark.parametrize(
    ("override", "wrong", "nearest"),
    [
        (
            "optimizer.lerning_rate=1",
            "optimizer.lerning_rate = 1",
            "optimizer.learning_rate",
        ),
        ("optimiser.name=muon", "optimiser = {", "optimizer"),
        ("run.learning_rate=1", "run.learning_rate = 1", "optimizer.learning_rate"),
        ("learning_rate=1", "learning_rate = 1", "optimizer.learning_rate"),
        ("scorer.sandbox.cpus=1", "scorer.sandbox.cpus = 1", "scorer.sandbox.cpu_s"),
        ("rewards.exact.wieght=1", "rewards.exact.wieght = 1", "rewards.exact.weight"),
    ],
)
def test_unknown_key_names_the_nearest(
    grpo_file: Path, override: str, wrong: str, nearest: str
):
    message = complaint(grpo_file, override)
    assert message.startswith(f"command line: {wrong}")
    assert message.endswith(f"unknown key. Did you mean {nearest}?")


def test_unknown_key_without_a_neighbour_lists_the_table(grpo_file: Path):
    message = complaint(grpo_file, "checkpoint.zzz=1")
    assert message.endswith("unknown key. [checkpoint] takes every_steps, keep.")


def test_unknown_key_in_a_stage_names_the_nearest(supervised_file: Path):
    message = complaint(supervised_file, "supervised.stages.0.nmae=x")
    assert "Did you mean supervised.stages.0.name?" in message


def test_misspelt_table_in_the_file_names_file_and_table(tmp_path: Path):
    path = tmp_path / "typo.toml"
    path.write_text('[modle]\ncheckpoint = "x"\n')
    message = complaint(path)
    assert message.startswith(f"{path}: modle = ")
    assert "Did you mean model?" in message
    assert message.endswith("(1 more problem after that.)")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "run.seed=1.5",
            "run.seed = 1.5: expected integer >= 0 and < 4294967296, got 1.5",
        ),
        (
            "run.seed=true",
            f"run.seed = true: {SEED}, got a boolean",
        ),
        (
            "run.seed=x",
            f'run.seed = "x": {SEED}, got text',
        ),
        (
            "run.seed=-1",
            f"run.seed = -1: {SEED}, got -1",
        ),
        ("run=3", "run = 3: expected table, got 3. Write a table [run]"),
        (
            "optimizer.learning_rate=nan",
            "optimizer.learning_rate = nan: expected number > 0, got nan",
        ),
        ("optimizer.beta1=1.0", "expected number >= 0 and < 1, got 1.0"),
        ("model.unroll_layers=1", "expected true or false, got 1"),
        ("mesh.data=many", 'expected "auto" or integer >= 1, got text'),
        ("mesh.data=0", 'expected "auto" or integer >= 1, got 0'),
        ("evaluation.pass_at=4", "expected list of integer >= 1, got 4"),
        ('evaluation.pass_at=[1, "a"]', 'evaluation.pass_at.1 = "a": expected integer'),
        ("log.console=2020-01-01", "got date"),
        ("log.wandb_project=''", "expected text that is not empty"),
    ],
)
def test_wrong_value_names_expected_and_given(
    grpo_file: Path, override: str, expected: str
):
    message = complaint(grpo_file, override)
    assert message.startswith("command line: ")
    assert expected in message


def test_wrong_choice_names_the_nearest(grpo_file: Path):
    message = complaint(grpo_file, "optimizer.schedule=cosin")
    assert 'expected "constant" | "linear" | "cosine", got text' in message
    assert message.endswith('Did you mean "cosine"?')


def test_wrong_choice_far_from_all_points_to_them(grpo_file: Path):
    message = complaint(grpo_file, "replay.method=repo")
    assert 'expected "none" | "groups" | "samples", got text' in message
    assert message.endswith('Choose one of these; the default is "none".')


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("scaffold.tiers=knowledge", 'scaffold.tiers=["knowledge"]'),
        ("scaffold.tiers=trace,knowlege", 'scaffold.tiers=["trace", "knowledge"]'),
        ("distill.at_steps=0", "distill.at_steps=[0]"),
        ("evaluation.pass_at=1,4", "evaluation.pass_at=[1, 4]"),
        ("curriculum.order=easy", 'curriculum.order=["easy"]'),
    ],
)
def test_a_scalar_for_a_list_says_how_to_write_it(
    grpo_file: Path, override: str, expected: str
):
    message = complaint(grpo_file, override)
    assert message.endswith(f"Write it as a list: {expected}.")


def test_validation_problems_of_a_calibration_are_taken(grpo_file: Path):
    """Without evaluations during training: the calibration reads them."""
    changes = ["temperature.then=[1.5]", "evaluation.num_validation_problems=64"]
    changes.append("temperature.calibration_problems=64")
    assert load_config(grpo_file, changes).evaluation.num_validation_problems == 64


def test_an_idle_field_names_the_override_that_helps(grpo_file: Path):
    message = complaint(grpo_file, "evaluation.num_validation_problems=64")
    assert "evaluation.every_steps is 0" in message
    assert "set evaluation.num_validation_problems=512, its default." in message


def test_wrong_value_names_the_default(grpo_file: Path):
    message = complaint(grpo_file, "optimizer.learning_rate=0")
    assert message.endswith("its default is 1e-06.")


def test_missing_table_says_how_to_add_it(tmp_path: Path):
    path = tmp_path / "empty.toml"
    path.write_text("")
    assert "model is missing. Add a table [model]" in complaint(path)


def test_long_value_is_shortened(grpo_file: Path):
    message = complaint(grpo_file, f"run.seed={'x' * 500}")
    assert len(message) < 200


def test_unknown_reward_names_the_nearest(grpo_file: Path):
    message = complaint(grpo_file, "rewards.exat.weight=1.0")
    assert message.startswith("command line: rewards.exat: no such reward.")
    assert "Did you mean rewards.exact?" in message


# Combinations that cannot work


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["objective.minibatches=3"], "Set sampling.problems_per_step to a multiple"),
        (["mesh.fsdp=64", "objective.microbatches=16"], "to one of [1, 2, 4, 8]."),
        (["objective.microbatches=7"], "Set it to one of [1, 2, 4, 8, 16, 32, 64, "),
        (["mesh.data=3"], "mesh.data * mesh.fsdp = 3"),
        (["mesh.fsdp=5"], "Set sampling.problems_per_step to a multiple of 5"),
        (["model.preset=tiny"], "Set exactly one of the two"),
        (["model.checkpoint=''"], "Set exactly one of the two"),
        (["model.tokenizer=x"], "Set model.tokenizer together with model.preset"),
        (["evaluation.pass_at=[1, 16]"], "Raise evaluation.samples_per_problem"),
        (["evaluation.pass_at=[]"], "List at least one k"),
        (["evaluation.pass_at=[1, 1]"], "each k once"),
        (["evaluation.num_problems=2001"], "is more than data.num_test 2000"),
        (
            ["evaluation.every_steps=5", "data.num_validation=100"],
            "num_validation_problems 512 is more than data.num_validation 100",
        ),
        (
            ["replay.method=samples", "replay.num_replays=17"],
            "replay.num_replays 17 is more than replay.max_stored 16",
        ),
        (
            ['scaffold.tiers=["trace"]', "scaffold.exempt_share=1"],
            "scaffold.exempt_share 1.0 leaves no step with hints",
        ),
        (
            ["temperature.then=[1.5]", "temperature.min_stage_steps=40"],
            "min_stage_steps 40 is not less than run.num_steps 40",
        ),
        (
            [
                "temperature.then=[1.5]",
                "temperature.min_stage_steps=1",
                "temperature.window=40",
            ],
            "temperature.window 40 is not less than run.num_steps 40",
        ),
        (
            ["temperature.then=[1.5]", "temperature.calibration_problems=513"],
            "513 is more than evaluation.num_validation_problems 512",
        ),
        (
            [
                "temperature.then=[1.5]",
                "temperature.calibration_problems=9",
                "data.num_validation=8",
            ],
            "calibration_problems 9 is more than data.num_validation 8",
        ),
        (["data.num_train=10"], "sampling.problems_per_step 64 is more than"),
        (["data.split=test"], "both 'test'"),
        (
            ["data.split=validation", "evaluation.every_steps=5"],
            "set evaluation.every_steps = 0",
        ),
        (["scorer.sandbox.level=D"], "set scorer.sandbox.allow_unsafe = true"),
        (["scorer.sandbox.minimum_level=D"], "set scorer.sandbox.allow_unsafe = true"),
        (["scorer.sandbox.level=C"], "weaker than minimum_level 'B'"),
        (["scorer.sandbox.wall_s=1.0"], "shorter than cpu_s"),
        (["scorer.deadline_s=1.0"], "scorer.deadline_s 1.0 is shorter"),
        (["optimizer.warmup_steps=41"], "Lower optimizer.warmup_steps to 40 or less"),
        (
            ["objective.preset=sapo", "objective.clip_low=0.1"],
            "objective.clip_low 0.1 has no effect with preset 'sapo'",
        ),
        (
            [
                "objective.combine=normalize_then_sum",
                "objective.advantage_scale=batch",
            ],
            "Set them to 'group' and 'mean'",
        ),
        (["sampling.top_p=0.9"], "Set sampling.top_k, to 64 for instance"),
        (["sampling.min_p=0.1"], "Set sampling.top_k, to 64 for instance"),
        (["sampling.top_k=1"], "would be the same"),
        (["sampling.slots=65"], "more than sampling.problems_per_step 64"),
        (["sampling.rows_per_problem=9"], "more than sampling.group_size 8"),
        (["mesh.data=8", "sampling.slots=12"], "Set it to a multiple of 8"),
        (["sampling.cache_dtype=int8"], "to 'token_truncate' for instance"),
        (["sampling.constraint=yaml"], "Write python_literal, json, regex:PATTERN or"),
        (["sampling.constraint=regex:("], "the pattern '(' cannot be compiled"),
        (
            ["objective.correction=token_mask", "objective.correction_min=2.0"],
            "is not below correction_max 2.0",
        ),
        (["rewards.exact.weight=0.0"], "every reward (exact) has weight 0"),
        (["rewards={}"], "no reward is configured"),
        (["run.mode=supervised"], "supervised.stages is empty"),
    ],
)
def test_impossible_combination_says_what_to_change(
    grpo_file: Path, overrides: list[str], expected: str
):
    message = complaint(grpo_file, *overrides)
    assert message.startswith(f"{grpo_file} with overrides: ")
    assert expected in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("run.mode=grpo", "no reward is configured"),
        ("supervised.stages.1.name=clean", "repeats the name 'clean'"),
        ("supervised.stages.1.share=0.0", "Set share above 0"),
        ("supervised.stages.0.share=0.5", "and only then"),
        ("optimizer.warmup_steps=6", "stage 'mixed', which makes 5 updates"),
        ("supervised.problems_per_batch=20001", "supervised.problems_per_batch 20001"),
    ],
)
def test_impossible_stage_says_what_to_change(
    supervised_file: Path, override: str, expected: str
):
    assert expected in complaint(supervised_file, override)


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("optimizer.muon_learning_rate=0.1", "optimizer.name is 'adamw'"),
        ("optimizer.decay_fraction=0.5", "optimizer.schedule is 'constant'"),
        ("supervised.problems_per_batch=3", "run.mode is 'grpo'"),
        ("sampling.gather_weights=false", "mesh.fsdp is 1"),
        ("objective.correction_max=3.0", "objective.correction is 'none'"),
        ("lora.alpha=8", "lora.rank is 0"),
        ('lora.targets=["q"]', "lora.rank is 0"),
    ],
)
def test_a_field_without_effect_is_refused(grpo_file: Path, override: str, reason: str):
    fixed = ["optimizer.name=adamw", "optimizer.schedule=constant"]
    message = complaint(grpo_file, *fixed, override)
    assert f"has no effect while {reason}" in message


@pytest.mark.parametrize(
    "override",
    [
        "run.num_steps=7",
        "objective.kl_coef=0.1",
        "sampling.group_size=4",
        "sampling.slots=4",
    ],
)
def test_a_field_of_grpo_is_refused_in_supervised_mode(
    supervised_file: Path, override: str
):
    assert "run.mode is 'supervised'" in complaint(supervised_file, override)


def test_adapters_leave_no_reference_to_move(grpo_file: Path):
    changes = ["objective.kl_coef=0.1", "objective.ref_sync_steps=4"]
    load_config(grpo_file, changes)
    message = complaint(grpo_file, *changes, "lora.rank=8")
    assert "with lora.rank 8 is the frozen base" in message


@pytest.mark.parametrize("targets", [[], ["q", "v", "q"]])
def test_targets_of_adapters_are_named_once(grpo_file: Path, targets: list[str]):
    message = complaint(grpo_file, "lora.rank=8", f"lora.targets={targets}")
    assert "at least one target, and each target once" in message


def test_stages_of_a_grpo_run_are_refused(supervised_file: Path):
    message = complaint(supervised_file, "run.mode=grpo", "rewards.exact.weight=1.0")
    assert "supervised.stages has 2 stages that would not run" in message


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_stage_name_must_name_a_folder(supervised_file: Path, name: str):
    message = complaint(supervised_file, f'supervised.stages.0.name="{name}"')
    assert "expected text of letters, digits, _ . -" in message


def test_int8_is_taken_with_a_correction(grpo_file: Path):
    changes = ["sampling.cache_dtype=int8", "objective.correction=token_truncate"]
    config = load_config(grpo_file, changes)
    assert config.objective.correction_parts == {
        "correction": "token_truncate",
        "correction_max": 2.0,
        "correction_min": 0.0,
    }


def test_only_what_was_chosen_replaces_the_preset(grpo_file: Path):
    config = load_config(
        grpo_file, ["objective.clip_high=0.3", "objective.advantage_baseline=mean"]
    )
    assert config.objective.loss_parts == {"clip_high": 0.3}
    assert config.objective.advantage_parts == {"baseline": "mean"}


def test_warmup_counts_updates_not_steps(grpo_file: Path):
    config = load_config(
        grpo_file, ["objective.minibatches=2", "optimizer.warmup_steps=80"]
    )
    assert config.num_updates == 80


def test_unsafe_level_is_taken_when_allowed(grpo_file: Path):
    changes = ["level=D", "minimum_level=D", "allow_unsafe=true"]
    config = load_config(grpo_file, [f"scorer.sandbox.{c}" for c in changes])
    assert config.scorer.sandbox.level == "D"


# Files


def test_absent_file_is_one_line(tmp_path: Path):
    assert "cannot be read" in complaint(tmp_path / "absent.toml")


def test_broken_toml_names_the_place(tmp_path: Path):
    path = tmp_path / "broken.toml"
    path.write_text("[run]\nseed = = 1\n")
    assert "line 2" in complaint(path)


def test_other_encodings_are_refused(tmp_path: Path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b'[prompt]\nsystem = "\xe9"\n')
    assert "no UTF-8" in complaint(path)


def test_config_is_found_by_path(grpo_file: Path):
    assert find_config(str(grpo_file)) == grpo_file


@pytest.mark.parametrize("name", sorted(shipped_configs()))
def test_shipped_config_is_found_by_name_and_loads(name: str):
    path = find_config(name)
    assert path == find_config(f"{name}.toml")
    assert isinstance(load_config(path), Config)


def test_unknown_config_lists_the_shipped_ones():
    with pytest.raises(ConfigError) as caught:
        find_config("quickstat")
    assert "\n" not in str(caught.value)
    for name in shipped_configs():
        assert name in str(caught.value)


def test_folder_is_no_config(tmp_path: Path):
    with pytest.raises(ConfigError, match="is a folder"):
        find_config(str(tmp_path))
