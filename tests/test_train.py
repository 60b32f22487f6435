"""Whole runs by the command line: what they leave, and that a kill changes nothing."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.glossary import definition, is_timing
from jaxgrpo.metrics_log import read_histograms, read_metrics
from jaxgrpo.rollout_table import read_part, read_rollouts
from tests.test_metrics_page import EVERY_STEP, rows_of_page

REPOSITORY = Path(__file__).parents[1]
PATIENCE_S = 240.0

COMMON = """
[model]
preset = "qwen3-tiny"
tokenizer = "builtin:output_prediction_tokenizer"

[data]
cache_dir = "{cache}"
num_train = 10
num_validation = 8
num_test = 12
build_workers = 1

[scorer]
num_workers = 1

[checkpoint]
every_steps = 2
keep = 9

[log]
wandb = "disabled"
console = "plain"
"""

# Sixteen problems are drawn from ten: the second checkpoint lies in the second epoch.
GRPO = """
[run]
num_steps = 4

[prompt]
max_prompt_tokens = 60

[sampling]
problems_per_step = 4
group_size = 4
max_new_tokens = 8

[rewards.exact]
weight = 1.0
[rewards.similarity]
weight = 0.5
schedule = { shape = "linear", to = 0.0, begin = 1, end = 3 }
[rewards.short]
function = "mine.py:short"
weight = 0.25
gate = "similarity"
gate_at = 0.2
schedule = { shape = "switch", to = 0.5, when = "num_problems", reaches = 8.0 }
[rewards.entropy]
weight = 0.0

[objective]
updates_per_rollout = 2
minibatches = 2
kl_coef = 0.01
ref_sync_steps = 6

[optimizer]
learning_rate = 1e-2

[evaluation]
num_problems = 12
samples_per_problem = 4
pass_at = [1, 4]
batch_problems = 4
every_steps = 2
num_validation_problems = 8
tail_problems = 6
"""

WEIGHTS = {
    1: {"exact": 1.0, "similarity": 0.5, "short": 0.25},
    2: {"exact": 1.0, "similarity": 0.5, "short": 0.25},
    3: {"exact": 1.0, "similarity": 0.25, "short": 0.5},
    4: {"exact": 1.0, "similarity": 0.0, "short": 0.5},
}
"""Of the rewards in each step. The run is killed between the two in the middle."""

MINE = """
def short(completion_ids, trainer_state, log_extra, log_metric, **kwargs):
    lengths = [len(ids) for ids in completion_ids]
    log_extra("length", lengths)
    log_metric("longest", max(lengths))
    assert trainer_state.max_steps in (2, 4)
    return [1.0 / length if length > 2 else None for length in lengths]
"""

SUPERVISED = """
[run]
mode = "supervised"

[optimizer]
name = "muon"
learning_rate = 1e-2

[sampling]
max_new_tokens = 8

[evaluation]
num_problems = 12
samples_per_problem = 4
pass_at = [1, 4]
batch_problems = 4
every_steps = 2
num_validation_problems = 8

[supervised]
problems_per_batch = 4

[[supervised.stages]]
name = "clean"
num_steps = 3

[[supervised.stages]]
name = "base"
num_steps = 3
targets = "mixed"
share = 0.7
"""

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def start(session_cache: Path) -> Command:
    """Returns a function that starts `jaxgrpo` with the session's caches."""
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": str(REPOSITORY),
    }

    def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "jaxgrpo.cli", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """The output of a process that is to end with a code."""
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == code, output
    return output


def killed_at(process: subprocess.Popen[str], sign: Path) -> None:
    """Kills a process, without any warning, when a file or folder appears."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not sign.exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, f"{sign} did not appear"
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def forget_after(run: Path, step: int) -> None:
    """Removes later checkpoints: as if the kill had come before they were whole."""
    for path in (run / "checkpoints").iterdir():
        if path.name.isdigit() and int(path.name) > step:
            shutil.rmtree(path)


def summary(run: Path) -> dict[str, Any]:
    return json.loads((run / "summary.json").read_text())


def lasting(run: Path) -> list[dict[str, float]]:
    """The lines of `metrics.jsonl`, without what depends on the machine."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if not is_timing(name)}
        for line in lines
    ]


# GRPO


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any, session_cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("train")
    common = COMMON.format(cache=session_cache)
    (folder / "grpo.toml").write_text(GRPO + common)
    (folder / "mine.py").write_text(MINE)
    (folder / "supervised.toml").write_text(SUPERVISED + common)
    return folder


@pytest.fixture(scope="module")
def whole(start: Command, folder: Path) -> tuple[Path, str]:
    """An uninterrupted run, and what it printed."""
    output = ended(start(folder, "train", "grpo.toml", "--run", "whole"))
    return folder / "whole", output


@pytest.fixture(scope="module")
def resumed(start: Command, folder: Path, whole: tuple[Path, str]) -> tuple[Path, str]:
    """The same run, killed after its second step and started again."""
    run = folder / "resumed"
    killed_at(
        start(folder, "train", "grpo.toml", "--run", "resumed"),
        run / "checkpoints" / "2",
    )
    forget_after(run, 2)
    output = ended(start(folder, "train", "grpo.toml", "--run", "resumed"))
    return run, output


def test_a_run_prints_its_steps_and_a_table(whole):
    _, output = whole
    assert "before: exact match" in output and "after: exact match" in output
    assert "4/4" in output
    assert "pass@4" in output and "change" in output
    assert "Traceback" not in output and "Warning" not in output


def test_a_run_leaves_everything_in_its_folder(whole):
    run, _ = whole
    names = {path.name for path in run.iterdir()}
    assert names == {
        ".lock", "checkpoints", "config.toml", "curves.png", "evaluation.md",
        "evaluation.png", "evaluation_after.json", "evaluation_before.json",
        "evaluations", "export", "metrics.jsonl", "rollouts", "summary.json",
        "tail.json",
    }  # fmt: skip
    for picture in ("curves.png", "evaluation.png"):
        assert (run / picture).read_bytes().startswith(b"\x89PNG")
    exported = {path.name for path in (run / "export").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= exported
    saved = {path.name for path in (run / "checkpoints").iterdir()}
    assert {"2", "4"} <= saved


def test_the_summary_says_what_came_out_where(whole):
    values = summary(whole[0])
    before, after = values["before"], values["after"]
    assert {"exact_match", "pass@1", "pass@4", "num_problems"} <= before.keys()
    assert before.keys() == after.keys()
    assert values["num_steps"] == 4 and values["resumed_from"] == 0
    assert values["num_problems"] == 16 and values["seed"] == 0
    assert values["num_tokens"] > 16 * 4 and values["wall_s"] > 0
    assert values["scorer"]["rows"] > 0 and values["scorer"]["infra"] == 0
    assert len(values["devices"]) == 1
    assert {"jax", "flax", "numpy"} <= values["versions"].keys()


def test_every_step_has_a_line_of_defined_metrics(whole):
    lines = read_metrics(whole[0])
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        names = set(line) - {"step"}
        assert [name for name in names if definition(name) is None] == []
        assert {"reward", "loss", "kl", "grad_norm", "learning_rate", "num_tokens",
                "timing_s/step", "perf/tokens_per_s"} <= names  # fmt: skip
        assert line["update_skipped"] == 0.0
        assert line["sampling/sampling_logp_difference/mean"] < 1e-5
    assert "eval/exact_match" in lines[1] and "eval/exact_match" not in lines[0]


def test_the_log_tells_of_every_reward(whole):
    lines = read_metrics(whole[0])
    for line in lines:
        weights = WEIGHTS[int(line["step"])]
        for name in ("similarity", "short"):
            assert line[f"rewards/{name}/weight"] == weights[name]
        assert line["rewards/short/failed"] == 0.0
        assert 1 <= line["user/longest"] <= 8
        assert line["timing_s/reward/short"] > 0.0
    histograms = read_histograms(whole[0])
    assert histograms.keys() == WEIGHTS.keys()
    for step, by_name in histograms.items():
        abstained = lines[step - 1]["rewards/short/abstained"]
        assert sum(by_name["rewards/short"].counts) == round(16 * (1 - abstained))
        assert sum(by_name["rewards/entropy"].counts) == 16


def test_every_metric_of_a_run_is_on_its_page(whole):
    rows = rows_of_page()
    documented = {row.name for row in rows}
    lines = read_metrics(whole[0])
    for line in lines:
        patterns = {
            pattern for pattern in documented if matches(pattern, set(line) - {"step"})
        }
        always = {row.name for row in rows if row.written == EVERY_STEP}
        assert always <= patterns, f"not written in every step: {always - patterns}"
    names = {name for line in lines for name in line} - {"step"}
    strangers = [n for n in names if not any(matches(p, {n}) for p in documented)]
    assert not strangers, f"add to GLOSSARY and docs/metrics.md: {strangers}"


def matches(pattern: str, names: set[str]) -> bool:
    """Whether one of the names is spelled as a row of the page says."""
    regular = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern))
    regular = regular.replace("eval_se/[^/]+", "eval_se/.+")
    return any(re.fullmatch(regular, name) for name in names)


def test_the_tail_is_what_the_first_greedy_answers_got_wrong(whole):
    folder, output = whole
    tail = json.loads((folder / "tail.json").read_text())
    assert 0 < len(tail["problem_ids"]) <= 6
    before, after = tail["evaluations"]["before"], tail["evaluations"]["after"]
    assert before["exact_match"]["value"] == 0.0
    assert before["num_problems"] == after["num_problems"] == len(tail["problem_ids"])
    measured = [line for line in read_metrics(folder) if "tail/pass@4" in line]
    assert [line["step"] for line in measured] == [2]
    shares = [measured[0][f"tail/frac_reward_{name}"]
              for name in ("all_zero", "mixed", "all_one")]  # fmt: skip
    assert sum(shares) == pytest.approx(1.0)
    assert "The tail" in output


def test_every_generation_of_the_evaluations_is_kept(whole):
    parts = list((whole[0] / "evaluations").glob("before-*/greedy/*.parquet"))
    rows = [row for path in parts for row in read_part(path).to_pylist()]
    assert len(rows) == summary(whole[0])["before"]["num_problems"]
    assert all(row["completion"] is not None and row["verdict"] for row in rows)


def test_no_program_of_the_loop_is_compiled_twice_for_one_shape(whole):
    folder, output = whole
    compiled = [line["perf/compilations"] for line in read_metrics(folder)]
    assert compiled[0] > 0
    assert compiled[-1] == 0
    assert "was compiled for" not in output


def test_every_sample_is_in_the_table(whole):
    table = read_rollouts(whole[0])
    assert table.num_rows == 4 * 16
    rows = table.to_pylist()
    assert {row["step"] for row in rows} == {1, 2, 3, 4}
    assert {row["policy_step"] for row in rows} == {0, 4, 8, 12}
    assert any(row["advantage"] for row in rows)
    for row in rows:
        length = len(row["token_ids"])
        assert json.loads(row["extra"])["length"] == length
        is_open = row["reward/similarity"] >= 0.2
        short = None if length <= 2 else is_open / length
        assert row["reward/short"] == (None if short is None else pytest.approx(short))
        weights = WEIGHTS[row["step"]]
        expected = sum(w * (row[f"reward/{name}"] or 0) for name, w in weights.items())
        assert row["reward"] == (None if short is None else pytest.approx(expected))
        assert row["reward/entropy"] < 0.0
        gaps = [
            abs(sampler - trainer)
            for sampler, trainer in zip(
                row["sampler_logprobs"], row["trainer_logprobs"], strict=True
            )
        ]
        assert len(gaps) == length == len(row["entropies"]) == len(row["offsets"])
        assert max(gaps) < 1e-4


def test_a_killed_run_goes_on_from_its_checkpoint(resumed):
    run, output = resumed
    assert "continuing from step 2" in output
    assert summary(run)["resumed_from"] == 2


def test_a_killed_run_ends_with_the_same_parameters(whole, resumed):
    name = "export/model.safetensors"
    assert (resumed[0] / name).read_bytes() == (whole[0] / name).read_bytes()


def test_a_killed_run_has_the_same_rollouts(whole, resumed):
    expected, actual = read_rollouts(whole[0]), read_rollouts(resumed[0])
    assert actual.schema == expected.schema
    for name in expected.schema.names:
        if name != "timings":
            assert actual[name].equals(expected[name]), name


def test_a_killed_run_has_the_same_metrics(whole, resumed):
    assert lasting(resumed[0]) == lasting(whole[0])


def test_a_killed_run_has_the_same_evaluations(whole, resumed):
    for name in ("evaluation_before.json", "evaluation_after.json", "tail.json"):
        assert (resumed[0] / name).read_bytes() == (whole[0] / name).read_bytes()
    totals = ("before", "after", "num_tokens", "num_problems", "dropped_prompts")
    expected, actual = summary(whole[0]), summary(resumed[0])
    assert [actual[name] for name in totals] == [expected[name] for name in totals]


def test_a_finished_run_says_so_and_does_nothing(start, folder, whole):
    run, _ = whole
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.name != ".lock"}
    output = ended(start(folder, "train", "grpo.toml", "--run", "whole"))
    assert "holds a finished run of 4 steps" in output
    assert "exact match" in output
    after = {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.name != ".lock"}
    assert {p: t for p, t in after.items() if p.is_file()} == {
        p: t for p, t in before.items() if p.is_file()
    }


def test_a_run_of_another_configuration_is_refused(start, folder, whole):
    process = start(
        folder, "train", "grpo.toml", "sampling.temperature=0.5", "--run", "whole"
    )
    output = ended(process, code=2)
    assert output.count("\n") == 1
    assert "sampling.temperature = 1.0, and now it is 0.5" in output


# Adapters

ADAPTERS = (
    "lora.rank=4", "objective.ref_sync_steps=0", "run.num_steps=2",
    "checkpoint.every_steps=1", "evaluation.num_problems=4",
)  # fmt: skip


@pytest.fixture(scope="module")
def adapted(start: Command, folder: Path) -> Path:
    """An uninterrupted run of two steps."""
    ended(start(folder, "train", "grpo.toml", *ADAPTERS, "--run", "adapted"))
    return folder / "adapted"


def test_adapters_go_on_from_their_checkpoint(start, folder, adapted):
    run = folder / "adapted-resumed"
    arguments = ("train", "grpo.toml", *ADAPTERS, "--run", run.name)
    killed_at(start(folder, *arguments), run / "checkpoints" / "1")
    forget_after(run, 1)
    assert "continuing from step 1" in ended(start(folder, *arguments))
    name = "export/model.safetensors"
    assert (run / name).read_bytes() == (adapted / name).read_bytes()
    assert lasting(run) == lasting(adapted)
    for name in ("evaluation_before.json", "evaluation_after.json"):
        assert (run / name).read_bytes() == (adapted / name).read_bytes()


def test_adapters_move_away_from_their_base(adapted):
    first, second = read_metrics(adapted)
    assert 0 < first["grad_norm"] and 0 < second["grad_norm"]
    assert first["kl"] < second["kl"]
    assert second["sampling/sampling_logp_difference/mean"] < 1e-5


def test_a_run_with_adapters_is_a_source_like_any_other(start, folder, adapted):
    said = {
        source: ended(
            start(
                folder, "sample", source, "f(1)", "--temperature", "0",
                "--max-new-tokens", "8",
            )
        )
        for source in ("adapted", "adapted/export")
    }  # fmt: skip
    assert said["adapted"] == said["adapted/export"]


# Supervised mode


@pytest.fixture(scope="module")
def imitated(start: Command, folder: Path) -> Path:
    ended(start(folder, "train", "supervised.toml", "--run", "imitated"))
    return folder / "imitated"


def assert_same_supervised_run(actual: Path, expected: Path) -> None:
    for stage in ("clean", "base"):
        for name in ("model.safetensors", "evaluation.json"):
            path = f"export/{stage}/{name}"
            assert (actual / path).read_bytes() == (expected / path).read_bytes(), path
    assert lasting(actual) == lasting(expected)
    assert summary(actual)["evaluations"] == summary(expected)["evaluations"]


@pytest.mark.slow
def test_every_stage_is_exported_with_its_evaluation(imitated):
    contents = []
    for stage in ("clean", "base"):
        export = imitated / "export" / stage
        names = {path.name for path in export.iterdir()}
        assert {"config.json", "tokenizer.json", "evaluation.json"} <= names
        contents.append((export / "model.safetensors").read_bytes())
    assert contents[0] != contents[1]
    lines = read_metrics(imitated)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["stage"] for line in lines] == [0, 0, 0, 1, 1, 1]
    assert summary(imitated)["evaluations"].keys() == {"clean", "base"}


@pytest.mark.slow
def test_a_kill_at_the_seam_of_stages_changes_nothing(start, folder, imitated):
    run = folder / "at-seam"
    process = start(folder, "train", "supervised.toml", "--run", "at-seam")
    killed_at(process, run / "checkpoints" / "3")
    forget_after(run, 3)
    ended(start(folder, "train", "supervised.toml", "--run", "at-seam"))
    assert summary(run)["resumed_from"] == 3
    assert_same_supervised_run(run, imitated)


@pytest.mark.slow
def test_imitation_with_adapters_resumes_in_its_second_stage(start, folder):
    arguments = ("train", "supervised.toml", "lora.rank=4", "--run")
    ended(start(folder, *arguments, "imitated-adapted"))
    whole = folder / "imitated-adapted"
    stages = [whole / "export" / stage / "model.safetensors"
              for stage in ("clean", "base")]  # fmt: skip
    assert stages[0].read_bytes() != stages[1].read_bytes()
    run = folder / "imitated-adapted-from-4"
    shutil.copytree(whole, run)
    (run / "summary.json").unlink()
    forget_after(run, 4)
    ended(start(folder, *arguments, run.name))
    assert summary(run)["resumed_from"] == 4
    assert_same_supervised_run(run, whole)


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 4])
def test_a_stage_resumes_in_its_middle(start, folder, imitated, step):
    run = folder / f"from-{step}"
    shutil.copytree(imitated, run)
    (run / "summary.json").unlink()
    forget_after(run, step)
    ended(start(folder, "train", "supervised.toml", "--run", run.name))
    assert summary(run)["resumed_from"] == step
    assert_same_supervised_run(run, imitated)
