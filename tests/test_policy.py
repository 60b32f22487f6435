"""A model as both machines see it: what is loaded, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxgrpo.assembly import export_checkpoint
from jaxgrpo.config import Config, ModelConfig, PromptConfig, RewardConfig, RunConfig
from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.sampling.keys import PURPOSE_INIT
from jaxgrpo.host.records import Problem
from jaxgrpo.policy import Policy, initial_weights, load_policy
from jaxgrpo.weights import checkpoint_folder

TOKENIZER = "builtin:output_prediction_tokenizer"
TINY = ModelConfig(preset="qwen3-tiny", tokenizer=TOKENIZER)
PROBLEM = Problem(id="p", kind="output", prompt="f(1)", reference="1")


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(TINY, PromptConfig())


@pytest.fixture
def checkpoint(policy: Policy, tmp_path: Path) -> Path:
    export_checkpoint(tmp_path / "tiny", policy, weights(policy), dtype="float32")
    return tmp_path / "tiny"


def weights(policy: Policy, seed: int = 0) -> Any:
    config = Config(
        model=TINY, run=RunConfig(seed=seed), rewards={"exact": RewardConfig()}
    )
    return initial_weights(policy, config)


def test_a_preset_brings_architecture_and_its_own_tokenizer(policy):
    assert policy.architecture == PRESETS["qwen3-tiny"]
    assert policy.num_tokens == len(policy.tokenizer) <= 448
    assert policy.weights_folder is None
    assert policy.tokenizer.decode(policy.eos_ids[0]).startswith("<|")


def test_a_checkpoint_brings_everything(policy, checkpoint):
    loaded = load_policy(ModelConfig(checkpoint=str(checkpoint)), PromptConfig())
    assert loaded.architecture == policy.architecture
    assert loaded.eos_ids == policy.eos_ids
    assert loaded.encode(PROBLEM).token_ids.tolist() == (
        policy.encode(PROBLEM).token_ids.tolist()
    )
    config = Config(
        model=ModelConfig(checkpoint=str(checkpoint)),
        rewards={"exact": RewardConfig()},
    )
    for name, leaf in weights(policy)["layers"].items():
        restored = initial_weights(loaded, config)["layers"][name]
        jax.tree.map(np.testing.assert_array_equal, restored, leaf)


def test_random_weights_come_from_the_seed(policy):
    first, again, other = (weights(policy, seed)["embedding_VD"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("axes", [(8, 1, 1), (1, 4, 2)])
def test_random_weights_are_born_where_they_lie_with_the_same_bits(policy, axes):
    config = Config(model=TINY, rewards={"exact": RewardConfig()})
    mesh = make_mesh(*axes)
    born = initial_weights(policy, config, mesh)
    shardings = param_shardings(policy.architecture, mesh)
    for leaf, sharding in zip(*map(jax.tree.leaves, (born, shardings)), strict=True):
        assert leaf.sharding == sharding
    jax.tree.map(np.testing.assert_array_equal, born, weights(policy))
    key = jax.random.fold_in(jax.random.key(config.run.seed), PURPOSE_INIT)
    uncompiled = initial_params(policy.architecture, key)
    jax.tree.map(np.testing.assert_array_equal, born, uncompiled)


def test_encoding_and_decoding_are_those_of_the_tokenizer(policy):
    prompt = policy.encode(PROBLEM)
    assert "f(1)" in prompt.text and prompt.problem_id == "p"
    ids = np.asarray(policy.tokenizer("[1, 2]", add_special_tokens=False)["input_ids"])
    text, offsets = policy.decode(np.append(ids, policy.eos_ids[0]))
    assert text == "[1, 2]"
    assert offsets[-1].tolist() == [6, 6]


def test_the_system_message_is_part_of_every_prompt():
    policy = load_policy(TINY, PromptConfig(system="Answer briefly."))
    assert "Answer briefly." in policy.encode(PROBLEM).text


@pytest.mark.parametrize(
    ("choice", "dtype"), [("auto", "float32"), ("bfloat16", "bfloat16")]
)
def test_arithmetic_on_a_cpu_is_float32_unless_asked_otherwise(choice, dtype):
    model = TINY.model_copy(update={"compute_dtype": choice})
    assert load_policy(model, PromptConfig()).forward.dtype == dtype


@pytest.mark.parametrize(
    ("platform", "dtype", "attention"),
    [
        ("cpu", "float32", "by_size"),
        ("gpu", "bfloat16", "cudnn"),
        ("tpu", "bfloat16", "splash"),
    ],
)
def test_the_forward_pass_suits_the_platform_that_will_run_it(
    platform, dtype, attention
):
    forward = load_policy(TINY, PromptConfig(), platform=platform).forward
    assert (forward.dtype, forward.attention) == (dtype, attention)


def test_an_attention_of_another_platform_is_refused():
    model = TINY.model_copy(update={"attention": "splash"})
    with pytest.raises(ValueError, match="'splash' runs on TPU, not on CPU. Set"):
        load_policy(model, PromptConfig())
    assert load_policy(model, PromptConfig(), platform="tpu").forward.attention


def test_an_unknown_preset_is_named_with_those_there_are():
    model = ModelConfig(preset="qwen3-huge", tokenizer=TOKENIZER)
    with pytest.raises(ValueError, match="'qwen3-huge' is unknown. Use one of .*tiny"):
        load_policy(model, PromptConfig())


def test_a_missing_checkpoint_is_named(tmp_path):
    model = ModelConfig(checkpoint=str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="absent"):
        load_policy(model, PromptConfig())


def test_a_tokenizer_larger_than_the_model_is_refused(checkpoint):
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"vocab_size": 300}))
    with pytest.raises(
        ValueError, match=f"has .* tokens, the model {checkpoint} has 300 rows. Use"
    ):
        load_policy(ModelConfig(checkpoint=str(checkpoint)), PromptConfig())


def test_a_folder_without_a_tokenizer_is_refused(checkpoint):
    (checkpoint / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="no tokenizer.json in"):
        load_policy(ModelConfig(checkpoint=str(checkpoint)), PromptConfig())


def test_an_export_is_whole_without_its_source(policy, checkpoint, tmp_path):
    moved = shutil.copytree(checkpoint, tmp_path / "elsewhere")
    names = {path.name for path in moved.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    shutil.rmtree(checkpoint)
    loaded = load_policy(ModelConfig(checkpoint=str(moved)), PromptConfig())
    assert loaded.encode(PROBLEM).text == policy.encode(PROBLEM).text
    assert checkpoint_folder(TOKENIZER) == policy.tokenizer_folder
