"""The shipped recipes: their headers hold, and each makes two steps on a tiny model."""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config, shipped_configs
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.metrics_log import read_metrics
from tests.problems.formats.published import (
    CODECONTESTS,
    CRUXEVAL,
    KODCODE,
    MBPP,
    MBPP_PLUS,
)

REPOSITORY = Path(__file__).parents[1]
PATIENCE_S = 900.0
Row = dict[str, Any]


def write_lines(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)


def mbpp(folder: Path) -> None:
    numbers = (*range(11, 15), *range(511, 515), *range(601, 609))
    rows = [MBPP | {"task_id": number} for number in numbers]
    write_lines(folder / "mbpp.jsonl", rows)


def cruxeval(folder: Path) -> None:
    rows = [CRUXEVAL | {"id": f"sample_{number}"} for number in range(60)]
    write_lines(folder / "cruxeval.jsonl", rows)


def deepcoder(folder: Path) -> None:
    tests = json.dumps({"inputs": ["7\n", "8\n"], "outputs": ["7\n", "8\n"]})
    for split, number in (("train", 80), ("test", 4)):
        rows = [
            {
                "problem": f"Print it. ({split} {i})",
                "solutions": ["print(input())"],
                "tests": tests,
            }
            for i in range(number)
        ]
        write_parquet(folder / "taco" / f"{split}-00000.parquet", rows)


def codecontests(folder: Path) -> None:
    for split, number in (("train", 8), ("valid", 4), ("test", 4)):
        rows = [CODECONTESTS | {"name": f"{split} {i}"} for i in range(number)]
        write_parquet(folder / "data" / f"{split}-00000.parquet", rows)


def kodcode(folder: Path) -> None:
    # Small, so that its problems come round in the second step.
    rows = [KODCODE | {"question_id": f"Leetcode_{i}_I"} for i in range(60)]
    write_parquet(folder / "data" / "train-00000.parquet", rows)


def hinted(folder: Path) -> None:
    rows = [
        {
            "id": f"double-{i}",
            "question": "Write double(x), which returns twice x.",
            "solution": "def double(x):\n    return 2 * x",
            "tests": ["assert double(2) == 4", "assert double('a') == 'aa'"],
            "hints": ["Multiply.", "Multiply. By two."],
        }
        for i in range(60)
    ]
    write_lines(folder / "hinted_problems.jsonl", rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A configuration of real size, and how it is made small."""

    preset: str
    """Architecture of its checkpoint."""
    write: Callable[[Path], None]
    """Writes a file of its data set, in the published form, to a folder."""
    path: str = ""
    """File in it that data.path names; empty for the folder."""
    overrides: tuple[str, ...] = ()
    """What has to be smaller besides what all have in common."""
    metrics: tuple[str, ...] = ()
    """What its method writes in every step."""
    publisher: str = "Qwen"
    """Of its checkpoint."""


RUFF_STUDY = (
    "exact_match",
    "completions/mean_length",
    "error_class/no_code_block",
    "rewards/tests/mean",
    *(
        f"rewards/ruff/{name}"
        for name in (
            "mean", "empty", "unparsable", "violations", "fatal", "serious", "light"
        )
    ),
)  # fmt: skip
"""What its authors look at, as far as programs do not have to be found for it."""


RECIPES = {
    "mbpp_qwen3_0.6b_ruff": Recipe(
        preset="qwen3-0.6b",
        write=mbpp,
        metrics=RUFF_STUDY,
    ),
    "mbpp_llama3.2_1b_ruff": Recipe(
        preset="llama-3.2-1b",
        publisher="meta-llama",
        write=mbpp,
        overrides=("objective.preset=gspo", "objective.minibatches=4"),
        metrics=RUFF_STUDY,
    ),
    "passrate_qwen3_4b": Recipe(
        preset="qwen3-4b",
        write=deepcoder,
        overrides=(
            "rewards.dense.kind=tests",
            "rewards.dense.mode=pass_rate",
            "rewards.dense.schedule.shape=switch",
            "rewards.dense.schedule.begin=1",
            "rewards.tests.weight=0",
            "rewards.tests.schedule.shape=switch",
            "rewards.tests.schedule.begin=1",
            "rewards.tests.schedule.to=1",
        ),
        metrics=("rewards/dense/mean", "frac_reward_many_values"),
    ),
    "cruxeval_qwen3_4b": Recipe(
        preset="qwen3-4b",
        write=cruxeval,
        overrides=("evaluation.tail_problems=2",),
        metrics=("rewards/ladder/mean", "error_class/no_answer_marker"),
    ),
    "deepcoder_qwen3_1.7b_microcoder": Recipe(
        preset="qwen3-1.7b",
        write=deepcoder,
        overrides=(
            "sampling.stages.0.num_steps=1",
            "sampling.stages.0.max_new_tokens=8",
            "temperature.calibration_problems=2",  # two steps are too few for a stage
        ),
        metrics=(
            "truncation_mask/masked_share",
            "sampling/temperature",
            "sampling/max_new_tokens",
            "diversity/distinct_4",
            "rewards/repetition/loop",
        ),
    ),
    "rlif_qwen3_1.7b": Recipe(
        preset="qwen3-1.7b",
        write=codecontests,
        metrics=("rewards/self_certainty/mean", "rewards/tests/mean", "kl"),
    ),
    "repo_qwen3_1.7b": Recipe(
        preset="qwen3-1.7b",
        write=kodcode,
        overrides=(
            "data.num_train=4",
            "replay.min_stored=4",
            "replay.num_replays=4",
        ),
        metrics=("replay/replayed_samples", "replay/stored_samples"),
    ),
    "scafgrpo_qwen3_8b": Recipe(
        preset="qwen3-8b",
        write=hinted,
        path="hinted_problems.jsonl",
        overrides=("scaffold.exempt_share=0",),
        metrics=("scaffold/asked_groups", "scaffold/revived_groups"),
    ),
    "dapo_qwen3_32b": Recipe(
        preset="qwen3-32b",
        write=deepcoder,
        overrides=(
            "objective.minibatches=2",
            "rewards.overlong.max_tokens=16",
            "rewards.overlong.buffer_tokens=8",
            "dynamic_sampling.max_tries=1",
        ),
        metrics=("dynamic_sampling/drawn_groups", "rewards/overlong/mean"),
    ),
    "gdpo_qwen3_1.7b": Recipe(
        preset="qwen3-1.7b",
        write=mbpp,
        metrics=("rewards/tests/mean", "rewards/format/mean", "rewards/ruff/mean"),
    ),
}
METHODS = {
    "methods/bilevel": ("credit/step_accuracy", "credit/intra_share"),
    "methods/constrained_ladder": (
        "rewards/ladder/mean",
        "error_class/exact",
    ),
    "methods/curriculum": ("curriculum/open_levels", "curriculum/success/trivial"),
    "methods/distill": ("distill/from_tail", "distill/tail_exact_match"),
    "methods/dynamic_sampling": ("dynamic_sampling/drop_all_wrong",),
    "methods/egca": ("credit/focused_share", "credit/mode/logic"),
    "methods/gated_shaping": ("rewards/protocol/mean", "rewards/dense/weight"),
    "methods/gdpo": ("rewards/format/mean", "rewards/similarity/mean"),
    "methods/oar": ("experimental/oar/importance_mean",),
    "methods/pass_rate": ("frac_reward_many_values", "rewards/tests/mean"),
    "methods/redistribution": (
        "redistribution/graded_groups",
        "redistribution/moved_advantage",
    ),
    "methods/replay_of_groups": ("replay/replaced_groups", "replay/stored_groups"),
    "methods/replay_of_samples": ("replay/replayed_samples",),
    "methods/rlif": ("rewards/self_certainty/mean", "entropy"),
    "methods/tests_and_ruff": (
        "rewards/ruff/serious",
        "rewards/ruff/empty",
        "error_class/wrong_answer",
    ),
    "methods/s_trace": ("experimental/s_trace/traced_share", "ratio/max"),
    "methods/sc_grpo": ("experimental/sc_grpo/mixed", "experimental/sc_grpo/scale"),
    "methods/scaffold": ("scaffold/all_wrong_groups", "scaffold/revived_groups"),
    "methods/temperature_stages": ("sampling/temperature", "diversity/distinct_4"),
    "methods/truncation_mask": ("truncation_mask/masked_share",),
}
"""The small configurations, each with what its method writes in every step."""
SHORT = (
    "run.num_steps=2",
    "data.num_train=256",
    "data.num_validation=64",
    "data.num_test=64",
    "sampling.problems_per_step=8",
    "scorer.num_workers=1",
    "optimizer.warmup_steps=0",
    "evaluation.num_problems=4",
    "evaluation.num_validation_problems=4",
    "evaluation.batch_problems=4",
    "evaluation.every_steps=2",
    "log.wandb=disabled",
    "log.console=plain",
)
TINY = (
    "run.num_steps=2",
    "model.checkpoint=",
    "model.preset=qwen3-tiny",
    "model.tokenizer=builtin:output_prediction_tokenizer",
    "prompt.max_prompt_tokens=480",
    "sampling.problems_per_step=4",
    "sampling.group_size=4",
    "sampling.max_new_tokens=16",
    "sampling.slots=0",
    "scorer.num_workers=1",
    "objective.microbatches=1",
    "optimizer.warmup_steps=0",
    "mesh.data=1",
    "mesh.fsdp=1",
    "mesh.tensor=1",
    "evaluation.num_problems=2",
    "evaluation.num_validation_problems=2",
    "evaluation.samples_per_problem=2",
    "evaluation.pass_at=[1, 2]",
    "evaluation.batch_problems=2",
    "evaluation.every_steps=2",
    "checkpoint.every_steps=2",
    "log.wandb=disabled",
    "log.console=plain",
)
SIZE = re.compile(r"_[\d.]+b(_|$)")
OVERRIDE = re.compile(r"([a-z_0-9]+(?:\.[a-z_0-9]+)*=)(?:'([^']*)'|([^\s'`]*))")


def header_of(name: str) -> str:
    """The comment that a configuration begins with, without its marks."""
    lines = shipped_configs()[name].read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.removeprefix("#") for line in lines[:number])


def named_overrides(header: str) -> list[list[str]]:
    """The variants that a header names: overrides beside or below some words."""
    variants: list[list[str]] = []
    header = re.sub(r"^ plan .*?(?=^ {,2}\w)", "", header, flags=re.M | re.S)
    for line in header.splitlines():
        if OVERRIDE.sub("", line).strip():
            variants.append([])
        variants[-1] += map("".join, OVERRIDE.findall(line))
    return [variant for variant in variants if variant]


def test_every_recipe_is_here():
    named_by_size = {name for name in shipped_configs() if SIZE.search(name)}
    assert named_by_size == RECIPES.keys()
    in_folder = {name for name in shipped_configs() if name.startswith("methods/")}
    assert in_folder == METHODS.keys()


@pytest.mark.parametrize("name", [*RECIPES, *METHODS])
def test_header_says_how_to_run_it_and_what_came_of_it(name: str):
    header = header_of(name)
    assert f" command    jaxgrpo train {name}" in header
    assert "\n result     " in header


@pytest.mark.parametrize("name", [*RECIPES, *METHODS])
def test_variants_that_a_header_names_are_accepted(name: str):
    path = shipped_configs()[name]
    config = load_config(path)
    variants = named_overrides(header_of(name))
    assert variants
    for variant in variants:
        assert load_config(path, variant) != config, variant


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_of_a_real_size_names_its_model_and_its_plan(name: str):
    preset = RECIPES[name].preset
    assert preset in PRESETS
    header = " ".join(header_of(name).split())
    checkpoint = load_config(shipped_configs()[name]).model.checkpoint
    assert (
        f"{RECIPES[name].publisher}/{checkpoint}, in the folder {checkpoint}" in header
    )
    assert f"jaxgrpo plan {name} --topology " in header
    assert f"model.checkpoint= model.preset={preset} model.tokenizer=" in header


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return os.environ | {
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": str(REPOSITORY),
    }


def jaxgrpo(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "jaxgrpo.cli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_recipe_makes_two_steps_on_a_tiny_model(
    name: str, environment: dict[str, str], tmp_path: Path, session_cache: Path
):
    recipe = RECIPES[name]
    files = tmp_path / "files"
    files.mkdir()
    recipe.write(files)
    data = (f"data.path={files / recipe.path}", f"data.cache_dir={session_cache}")
    overrides = (*TINY, *data, *recipe.overrides)
    jaxgrpo(tmp_path, environment, "train", name, "--run", "run", *overrides)
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert recipe.metrics and set(recipe.metrics) <= line.keys()
        assert math.isfinite(line["loss"]) and math.isfinite(line["grad_norm"])
    check_method(name, load_config(tmp_path / "run" / "config.toml"), lines)


def check_method(name: str, config: Config, lines: list[dict[str, float]]) -> None:
    """What two steps of a model that knows nothing must have come to."""
    first, second = lines
    if name == "deepcoder_qwen3_1.7b_microcoder":
        budgets = [line["sampling/max_new_tokens"] for line in lines]
        assert budgets == [8, config.sampling.max_new_tokens]
    if name == "passrate_qwen3_4b":
        assert [line["rewards/dense/weight"] for line in lines] == [1.0, 0.0]
        assert [line["rewards/tests/weight"] for line in lines] == [0.0, 1.0]
    if name == "repo_qwen3_1.7b":
        replayed = [line["replay/replayed_samples"] for line in lines]
        assert replayed == [0, 4 * config.replay.num_replays]
    if name == "scafgrpo_qwen3_8b":
        assert first["scaffold/asked_groups"] == config.sampling.problems_per_step
    if name == "dapo_qwen3_32b":
        assert first["dynamic_sampling/drawn_groups"] >= 4
    if name == "cruxeval_qwen3_4b":
        assert second["error_class/no_answer_marker"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_method_makes_two_steps_from_the_shipped_base(
    name: str, environment: dict[str, str], tmp_path: Path, session_cache: Path
):
    changes = [*SHORT, f"data.cache_dir={session_cache}"]
    if name == "methods/distill":
        changes.append("distill.num_problems=16")
    if name == "methods/temperature_stages":
        changes.append("temperature.calibration_problems=2")  # no time for a stage
    if name == "methods/bilevel":  # its own base is made by a run before
        changes.append("model.checkpoint=builtin:output_prediction_base")
    if name == "methods/gated_shaping":  # in two steps from one end to the other
        for schedule in ("rewards.dense.schedule", "rewards.exact.schedule"):
            changes += [f"{schedule}.begin=0", f"{schedule}.end=1"]
    jaxgrpo(tmp_path, environment, "train", name, "--run", "run", *changes)
    # A phase of distillation before the first step has a line of its own.
    lines = [line for line in read_metrics(tmp_path / "run") if line["step"]]
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert set(METHODS[name]) <= line.keys()
        assert math.isfinite(line["loss"]) and line["update_skipped"] == 0.0
        if "constrained" in name:
            assert "error_class/not_one_literal" not in line
    if name == "methods/gated_shaping":
        assert [line["rewards/dense/weight"] for line in lines] == [1.0, 0.0]
        assert [line["rewards/exact/weight"] for line in lines] == [0.0, 1.0]


@pytest.mark.slow
def test_ruff_study_is_checked_on_hidden_tests_that_were_not_trained_on(
    environment: dict[str, str], tmp_path: Path, session_cache: Path
):
    mbpp(tmp_path)
    # By its number the first takes tuples, which its solution insists on.
    of_lists = (
        "\ndef similar_elements(first, second):\n"
        "    return tuple(set(first) & set(second))\n"
    )
    other = {"task_id": "Mbpp/601", "canonical_solution": of_lists}
    rows = [MBPP_PLUS, MBPP_PLUS | other]
    write_lines(tmp_path / "MbppPlus.jsonl", rows)
    cache = f"data.cache_dir={session_cache}"
    jaxgrpo(
        tmp_path, environment, "train", "mbpp_qwen3_0.6b_ruff", "--run", "run", *TINY,
        cache, f"data.path={tmp_path / 'mbpp.jsonl'}", "run.num_steps=1",
    )  # fmt: skip
    jaxgrpo(
        tmp_path, environment, "evaluate", "run", "--out", "result.json", cache,
        "data.dataset=mbpp_plus", f"data.path={tmp_path / 'MbppPlus.jsonl'}",
        "data.where.task_number=.. 510", "evaluation.num_problems=0",
    )  # fmt: skip
    assert '"num_problems": 1' in (tmp_path / "result.json").read_text()
