"""The tables of rewards, and every way to get one wrong."""

from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.config import Config, ModelConfig, RewardConfig
from jaxgrpo.config_fields import config_fields, kind_meanings
from jaxgrpo.config_help import fields_help
from jaxgrpo.config_loading import ConfigError, config_to_toml, load_config
from jaxgrpo.host.rewards import reward_names, reward_spec, settings_class
from jaxgrpo.host.rewards.function import Settings as FunctionSettings

HEAD = """
[run]
num_steps = 40
[model]
checkpoint = "builtin:base"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(HEAD + "[rewards.exact]\n")
    return path


def rewards_of(tmp_path: Path, text: str) -> dict[str, RewardConfig]:
    path = tmp_path / "run.toml"
    path.write_text(HEAD + text)
    return load_config(path).rewards


def complaint(path: Path, *overrides: str) -> str:
    """Returns the one line with which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, list(overrides))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is taken


def test_name_of_a_table_says_which_reward_it_is(tmp_path: Path):
    rewards = rewards_of(
        tmp_path, "[rewards.overlong]\nmax_tokens = 9\nbuffer_tokens = 3\n"
    )
    spec = rewards["overlong"].spec("overlong")
    assert (spec.kind, spec.settings.max_tokens) == ("overlong", 9)


def test_one_kind_may_be_used_twice(tmp_path: Path):
    text = '[rewards.dense]\nkind = "tests"\nmode = "pass_rate"\n[rewards.tests]\n'
    specs = [reward.spec(name) for name, reward in rewards_of(tmp_path, text).items()]
    assert [(s.name, s.kind, s.settings.mode) for s in specs] == [
        ("dense", "tests", "pass_rate"),
        ("tests", "tests", "binary"),
    ]


def test_function_needs_no_kind(tmp_path: Path):
    rewards = rewards_of(tmp_path, '[rewards.mine]\nfunction = "a.py:f"\n')
    spec = rewards["mine"].spec("mine")
    assert spec.scope == "process"
    assert spec.settings == FunctionSettings(function="a.py:f")


NEEDS_FIELDS = {"function", "learned"}


@pytest.mark.parametrize("name", sorted({*reward_names()} - NEEDS_FIELDS))
def test_table_without_fields_means_the_default_settings(name: str, tmp_path: Path):
    text = f"""
    [rewards.{name}]
    [guard]
    mode = "off"
    [sampling]
    max_new_tokens = 20480
    """
    assert rewards_of(tmp_path, text)[name].spec(name) == reward_spec(name)


def test_written_rewards_load_to_equal_ones(tmp_path: Path):
    text = """
    [rewards.mine]
    function = "a.py:f"
    gate = "exact"
    gate_at = 0.5
    schedule = { shape = "linear", to = 0.0, begin = 3, end = 9 }
    [rewards.exact]
    """
    path, again = tmp_path / "run.toml", tmp_path / "again.toml"
    path.write_text(HEAD + text)
    config = load_config(path)
    again.write_text(config_to_toml(config))
    assert load_config(again) == config


def test_rewards_made_in_python_get_their_kind():
    config = Config(
        model=ModelConfig(checkpoint="builtin:base"),
        rewards={"exact": RewardConfig(weight=0.5)},
    )
    assert config.rewards["exact"].spec("exact") == reward_spec("exact")
    assert config.rewards["exact"].weight == 0.5


# What is refused


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "rewards.exct.weight=1",
            "rewards.exct: no such reward. Did you mean rewards.exact?",
        ),
        (
            "rewards.a.kind=exct",
            "rewards.a.kind = 'exct': no such reward. Did you mean exact?",
        ),
        ("rewards.exact.wieght=1", "unknown key. Did you mean rewards.exact.weight?"),
        (
            "rewards.exact.max_tokens=1",
            "It belongs to rewards of kind overlong, and rewards.exact is",
        ),
        ("rewards.overlong.max_token=1", "Did you mean rewards.overlong.max_tokens?"),
        (
            "rewards.overlong.max_tokens=1.5",
            "rewards.overlong.max_tokens = 1.5: expected integer",
        ),
        (
            "rewards.overlong.max_tokens=0",
            "rewards.overlong: buffer_tokens 4096 with max_tokens 0",
        ),
        ("rewards.tests.mode=all", 'expected "binary" | "pass_rate" | "reweighted"'),
        ("rewards.exact=1", "rewards.exact = 1: expected table"),
        (
            "rewards.exact.kind=tests",
            "is of kind 'tests', but 'exact' is the name of another reward",
        ),
        (
            'rewards.exact.function="a.py:f"',
            "rewards.exact is of kind 'function', but 'exact' is the name",
        ),
        (
            'rewards.mine.function="a.py"',
            "rewards.mine: function 'a.py' names no function",
        ),
        ("rewards.function.weight=1", "rewards.function.function is missing"),
        ("rewards.exact.weight=0", "every reward (exact) has weight 0"),
        ("rewards.exact.gate=exact", "rewards.exact.gate 'exact' is no other reward"),
        ("rewards.exact.gate=tests", "rewards.exact.gate 'tests' is no other reward"),
        (
            "rewards.exact.gate_at=0.5",
            "rewards.exact: gate_at 0.5 has no effect without gate",
        ),
        (
            "rewards.exact.schedule.to=0.5",
            "rewards.exact.schedule: to 0.5 has no effect with shape 'constant'",
        ),
        (
            "rewards.exact.schedule.shape=step",
            'expected "constant" | "linear" | "switch"',
        ),
        ('rewards.exact.schedule={shape="linear"}', "end 0 is not after begin 0"),
        ('rewards.exact.schedule={shape="switch"}', "nothing says when"),
        (
            'rewards.exact.schedule={shape="switch",begin=3,end=4}',
            "end 4 has no effect",
        ),
        (
            'rewards.exact.schedule={shape="switch",begin=3,falling=true}',
            "falling True has no effect with shape 'switch'. Remove it",
        ),
        (
            'rewards.exact.schedule={shape="switch",begin=3,when="loss"}',
            "begin 3 has no effect",
        ),
        (
            'rewards.exact.schedule={shape="switch",begin=3,to=1.0}',
            "to 1.0 is the weight already",
        ),
        (
            'rewards.exact.schedule={shape="switch",begin=40}',
            "begin 40 is never reached: run.num_steps is 40",
        ),
    ],
)
def test_nonsense_is_refused_in_a_line(file: Path, override: str, message: str):
    assert message in complaint(file, override)


def test_function_that_cannot_be_in_time_is_refused(file: Path):
    line = complaint(
        file, 'rewards.mine.function="a.py:f"', "rewards.mine.timeout_s=120"
    )
    assert "rewards.mine.timeout_s 120.0 is not below scorer.deadline_s 120.0" in line


def test_learned_reward_needs_its_model(file: Path):
    line = complaint(file, "rewards.learned.weight=1")
    assert "rewards.learned.checkpoint is missing" in line
    line = complaint(file, 'rewards.learned.checkpoint=""')
    assert "checkpoint is empty. Name a run of `jaxgrpo train-reward`" in line


# What is shown


@pytest.mark.parametrize("name", reward_names())
def test_every_setting_is_in_the_help(name: str):
    import dataclasses

    names = {field.name for field in dataclasses.fields(settings_class(name))}
    shown = {field.key: field for field in config_fields() if field.kind == name}
    assert names == shown.keys()
    assert all(field.meaning for field in shown.values())
    assert f"  {name}: {kind_meanings()[name].split()[0]}" in fields_help()


def test_common_fields_are_shown_once():
    keys = [f.key for f in config_fields() if f.table == "rewards.NAME" and not f.kind]
    assert keys == ["weight", "kind", "gate", "gate_at"]


def test_settings_keep_their_types(tmp_path: Path):
    text = '[rewards.mine]\nfunction = "a.py:f"\ntimeout_s = 2\nconversational = true\n'
    settings: Any = rewards_of(tmp_path, text)["mine"].settings
    assert settings == FunctionSettings(
        function="a.py:f", timeout_s=2.0, conversational=True
    )
