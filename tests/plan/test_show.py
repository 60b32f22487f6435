"""The command, as a user meets it."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgrpo.config_loading import load_config
from jaxgrpo.plan.devices import prepare_environment
from jaxgrpo.plan.hardware import parse_topology

REPOSITORY = Path(__file__).parents[2]
PLANS = sorted((REPOSITORY / "docs" / "plans").glob("*.toml"))

SMALL = """
[model]
checkpoint = "{folder}"
[prompt]
max_prompt_tokens = 128
[sampling]
problems_per_step = 4
group_size = 16
max_new_tokens = 128
[objective]
microbatches = 2
[rewards.exact]
[mesh]
fsdp = 2
tensor = 2
[evaluation]
batch_problems = 4
"""


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """A run whose checkpoint has a configuration and a tokenizer, and no weights."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(
        REPOSITORY / "jaxgrpo" / "assets" / "output_prediction_tokenizer", folder
    )
    sizes = {
        "model_type": "qwen3",
        "hidden_act": "silu",
        "vocab_size": 512,
        "hidden_size": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "intermediate_size": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
        "max_position_embeddings": 1024,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(sizes))
    path = tmp_path / "run.toml"
    path.write_text(SMALL.format(folder=folder))
    return path


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command without the settings of the tests."""
    hidden = ("JAX_", "XLA_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return subprocess.run(
        [sys.executable, "-m", "jaxgrpo.cli", "plan", *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )


def test_a_plan_by_arithmetic_needs_no_weights(run_file):
    done = plan(str(run_file), "--topology", "gpu:h100x4")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "gpu:h100x4: 4 x h100; mesh data 1, fsdp 2, tensor 2" in done.stdout
    assert "By arithmetic" in done.stdout


def test_a_run_that_does_not_fit_exits_1(run_file):
    done = plan(
        str(run_file), "--topology", "gpu:a100x4", "sampling.problems_per_step=40000",
        "data.num_train=40000",
    )  # fmt: skip
    assert done.returncode == 1
    assert "It does not fit: " in done.stdout
    assert done.stderr == ""


def test_fit_prints_what_to_put_in_the_file(run_file):
    done = plan(str(run_file), "--topology", "gpu:a100x4", "--fit")
    assert done.returncode == 0, done.stderr
    assert "[1] data" in done.stderr
    fragment = done.stdout.partition("# put this in the configuration\n")[2]
    path = run_file.with_name("fitted.toml")
    kept = run_file.read_text().replace("[mesh]\nfsdp = 2\ntensor = 2\n", "")
    kept = kept.replace("[objective]\nmicrobatches = 2\n", "")
    model, _, rest = kept.partition("[prompt]")
    remat = fragment.partition("[model]\n")[2]
    path.write_text(
        model + remat + "\n[prompt]" + rest + fragment.partition("[model]")[0]
    )
    again = plan(str(path), "--topology", "gpu:a100x4")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--topology", "v5e"], "has no shape"),
        (["--topology", "gpu:h1"], "is unknown"),
        (["--topology", "gpu:h100x3"], "does not divide 3 devices"),
        (["--topology", "gpu:h100x16", "mesh.data=4"], "sampling.problems_per_step"),
        (["--topology", "gpu:h100x8", "objective.microbatches=7"], "Set it to one of"),
    ],
    ids=["shape", "name", "devices", "prompts", "microbatches"],
)
def test_what_cannot_be_planned_is_one_line(run_file, arguments, expected):
    done = plan(str(run_file), *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_the_missing_compiler_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(ValueError, match=r"pip install 'jaxgrpo\[tpu\]'"):
        prepare_environment("v5e:4x4")


def test_no_tpu_is_looked_for(monkeypatch):
    environment: dict[str, str] = {}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(os, "environ", environment)
    prepare_environment("here")
    assert not environment
    prepare_environment("gpu:h200")
    assert environment == {"JAX_PLATFORMS": "cpu"}
    prepare_environment("v5e:4x4")
    assert environment["TPU_SKIP_MDS_QUERY"] == "1"
    assert environment["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_documented_runs_are_those_of_the_page(path):
    config = load_config(path)
    text = path.read_text()
    topology = parse_topology(text.partition("--topology ")[2].split()[0])
    shards = config.mesh.fsdp * (config.mesh.data if config.mesh.data != "auto" else 1)
    assert shards * config.mesh.tensor == topology.num_devices
    assert config.batch_size >= 64 and config.sampling.group_size == 16
    assert config.sampling.problems_per_step % shards == 0
    assert config.prompt.max_prompt_tokens == 1024
    assert config.sampling.max_new_tokens == 4096
    assert not config.lora.rank


def test_there_are_documented_runs():
    assert len(PLANS) == 6


def test_a_plan_is_compiled_for_a_tpu_that_is_elsewhere(run_file):
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("libtpu, the TPU compiler, is not installed: jaxgrpo[tpu]")
    done = plan(str(run_file), "--topology", "v5e:2x2", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["topology"]["num_devices"] == 4
    programs = {program["name"]: program for program in data["programs"]}
    assert list(programs) == [
        "cast_weights", "prefill", "insert", "decode_segment", "update",
    ]  # fmt: skip
    # Nothing of the size of the cache is copied, and the state is written in place.
    (decode,) = [m for m in data["memory"] if m["phase"] == "decode"]
    assert programs["decode_segment"]["temporaries"] < decode["parts"]["cache"] / 2
    assert programs["decode_segment"]["aliased"] >= decode["parts"]["cache"]
    assert programs["update"]["aliased"] >= decode["parts"]["optimiser"]
    update = data["work"][2]
    assert update["phase"] == "update" and update["flops"] > 0
    assert {c["kind"] for c in update["collectives"]} >= {"all-gather", "all-reduce"}
