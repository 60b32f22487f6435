"""Harvest, distil, resume: a small run with phases, whole and killed inside of one.

Over eight devices, in this process, so that all runs share their programs.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxgrpo import cli_distill, distilling
from jaxgrpo.cli import app
from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.supervised import Examples
from jaxgrpo.distilling import Distilling
from jaxgrpo.glossary import definition
from jaxgrpo.policy import load_policy
from jaxgrpo.problems.datasets import load_problems
from jaxgrpo.rollout_table import HARVEST_FOLDER, read_part, read_rollouts
from jaxgrpo.train import train
from tests.resumed_runs import lines
from tests.test_methods import RUN

PHASES = [
    "run.num_steps=3", "checkpoint.every_steps=1", "objective.kl_coef=0.01",
    "distill.at_steps=[0,2]", "distill.num_problems=16",
    "distill.temperatures=[0.7,1.5]", "distill.samples_per_problem=8",
    "distill.max_hits=2", "distill.epochs=4", "distill.hits_per_batch=8",
    "distill.learning_rate=2e-3", "distill.tail_share=0.25",
]  # fmt: skip
MAX_HITS, EPOCHS, NUM_LOOKED_AT = 2, 4, 16


class Seen:
    """What went through the phases of a run."""

    def __init__(self) -> None:
        self.examples: list[list[Examples]] = []
        """Batches imitated, by phase."""
        self.states: list[tuple[TrainState, TrainState]] = []
        """On the host, before and after each phase."""

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Takes down what the functions of phases are given and return."""
        phase, update = Distilling.phase, distilling.supervised_update

        def watched_phase(self_: Distilling, state: TrainState, made: int) -> Any:
            if made not in self_.config.distill.at_steps:
                return phase(self_, state, made)
            self.examples.append([])
            before = jax.device_get(state)
            state, metrics = phase(self_, state, made)
            self.states.append((before, jax.device_get(state)))
            return state, metrics

        def watched_update(state: TrainState, examples: Examples, **others: Any) -> Any:
            self.examples[-1].append(jax.device_get(examples))
            return update(state, examples, **others)

        patch.setattr(Distilling, "phase", watched_phase)
        patch.setattr(distilling, "supervised_update", watched_update)


@pytest.fixture(scope="module")
def config_file(tmp_path_factory: Any, session_cache: Path) -> Path:
    path = tmp_path_factory.mktemp("distilling") / "run.toml"
    path.write_text(RUN.format(cache=session_cache))
    return path


@pytest.fixture(scope="module")
def config(config_file: Path) -> Config:
    return load_config(config_file, PHASES)


@pytest.fixture(scope="module")
def run(config: Config, tmp_path_factory: Any) -> Iterator[tuple[Path, Seen]]:
    """A whole run with a phase before the first step and one in the middle."""
    folder, seen = tmp_path_factory.mktemp("whole") / "run", Seen()
    with pytest.MonkeyPatch.context() as patch:
        seen.watch(patch)
        train(config, folder)
    yield folder, seen


def harvest(folder: Path, made: int) -> list[dict[str, Any]]:
    """What a phase imitated, without the seconds that it took to judge it."""
    part = read_part(folder / HARVEST_FOLDER / f"step_{made:06d}.parquet")
    return part.drop_columns(["timings"]).to_pylist()


def training_ids(config: Config) -> set[str]:
    return {problem.id for problem in load_problems(config.data, "train")}


def test_each_phase_is_in_the_log_and_every_metric_defined(run):
    folder, _ = run
    found = lines(folder)
    assert [line["step"] for line in found] == [0, 1, 2, 3]
    with_phase = [line["step"] for line in found if "distill/hits" in line]
    assert with_phase == [0, 2]
    names = {name for line in found for name in line} - {"step", "histograms"}
    assert [name for name in sorted(names) if definition(name) is None] == []


def test_the_numbers_of_a_phase_agree_with_one_another(run):
    folder, _ = run
    for line in (line for line in lines(folder) if "distill/hits" in line):
        rows = harvest(folder, int(line["step"]))
        d = {name.removeprefix("distill/"): value for name, value in line.items()}
        assert 0 < d["problems"] <= NUM_LOOKED_AT
        assert d["tail_problems"] == pytest.approx(
            d["problems"] * (1 - d["before/exact_match"])
        )
        assert d["new_tail_problems"] == pytest.approx(
            d["problems"] * (1 - d["after/exact_match"])
        )
        assert d["hits"] == len(rows) > 0
        assert d["hit_problems"] == len({row["problem_id"] for row in rows})
        assert d["hit_problems"] <= d["tail_problems"]
        assert d["solved_problems"] <= d["tail_problems"]
        assert d["updates"] == EPOCHS * -(-d["hits"] // 8)
        assert d["updates_skipped"] == 0.0
        gap = d["before/pass@1"] - d["before/exact_match"]
        assert d["before/top1_gap"] == pytest.approx(gap)
        assert {"right_share/0.7", "right_share/1.5"} <= d.keys()


def test_imitating_makes_the_hits_likelier_and_solves_problems_of_the_tail(run):
    folder, _ = run
    first, *_ = lines(folder)
    assert first["distill/loss_last"] < 0.7 * first["distill/loss_first"]
    assert first["distill/solved_problems"] > 0
    before, after = (first[f"distill/{w}/exact_match"] for w in ("before", "after"))
    assert after > before


def test_what_is_imitated_is_right_distinct_and_of_training_problems(config, run):
    folder, _ = run
    evaluated = {p.id for split in ("validation", "test")
                 for p in load_problems(config.data, split)}  # fmt: skip
    for made in (0, 2):
        rows = harvest(folder, made)
        assert {row["verdict"] for row in rows} == {"OK"}
        assert {row["finish_reason"] for row in rows} <= {"eos", "stop"}
        ids = {row["problem_id"] for row in rows}
        assert ids <= training_ids(config) and not ids & evaluated
        for name in ids:
            texts = [r["completion"] for r in rows if r["problem_id"] == name]
            assert len(set(texts)) == len(texts) <= MAX_HITS
        temperatures = {json.loads(row["extra"])["temperature"] for row in rows}
        assert temperatures <= {0.7, 1.5}


def test_the_very_tokens_that_were_sampled_are_imitated(config, run):
    folder, seen = run
    policy = load_policy(config.model, config.prompt)
    problems = {problem.id: problem for problem in load_problems(config.data, "train")}
    for made, batches in zip((0, 2), seen.examples, strict=True):
        expected = sorted(
            (
                policy.encode(problems[row["problem_id"]]).token_ids.tolist(),
                row["token_ids"],
            )
            for row in harvest(folder, made)
        )
        found = [
            (ids[:start].tolist(), ids[start:end].tolist())
            for batch in batches
            for ids, start, end in zip(*batch, strict=True)
            if end
        ]
        assert sorted(found) == sorted(expected * EPOCHS)


def test_a_phase_keeps_moments_and_reference_and_counts_its_updates(run):
    folder, seen = run
    updates = [x["distill/updates"] for x in lines(folder) if "distill/updates" in x]
    for (before, after), number in zip(seen.states, updates, strict=True):
        assert after.step == before.step + number
        for name in ("opt_state", "ref_params"):
            pairs = zip(
                jax.tree.leaves(getattr(before, name)),
                jax.tree.leaves(getattr(after, name)),
                strict=True,
            )
            assert all(np.array_equal(x, y) for x, y in pairs), name
        moved = jax.tree.map(np.array_equal, before.params, after.params)
        assert not any(jax.tree.leaves(moved))


def test_steps_after_a_phase_take_their_share_from_the_new_tail(config, run):
    folder, _ = run
    by_step = {line["step"]: line for line in lines(folder)}
    for step, made in ((1, 0), (2, 0), (3, 2)):
        size = by_step[made]["distill/new_tail_problems"]
        share = config.distill.tail_share * config.sampling.problems_per_step
        assert by_step[step]["distill/from_tail"] == min(share, size)


def test_a_completion_drawn_before_a_phase_is_not_of_the_policy_after_it(run):
    folder, seen = run
    steps = {
        row["step"]: row["policy_step"] for row in read_rollouts(folder).to_pylist()
    }
    (_, after_first), (before_second, after_second) = seen.states
    assert steps[1] == after_first.step > 0
    assert steps[2] < before_second.step < after_second.step == steps[3]


def test_a_run_killed_inside_a_phase_goes_on_bit_for_bit(config, run, tmp_path):
    whole, _ = run
    again = tmp_path / "again"
    original, calls = distilling.supervised_update, []

    def killed(state: TrainState, examples: Examples, **others: Any) -> Any:
        calls.append(int(state.step))
        if len(calls) > first_phase + 1:  # in the middle of the second
            raise KeyboardInterrupt
        return original(state, examples, **others)

    first_phase = int(lines(whole)[0]["distill/updates"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distilling, "supervised_update", killed)
        with pytest.raises(KeyboardInterrupt):
            train(config, again)
    assert [line["step"] for line in lines(again)] == [0, 1]
    assert (again / HARVEST_FOLDER / "step_000002.parquet").exists()
    train(config, again)
    assert lines(whole) == lines(again)
    for name in ("token_ids", "sampler_logprobs", "trainer_logprobs", "advantage",
                 "policy_step", "problem_id"):  # fmt: skip
        ours, theirs = (read_rollouts(folder).column(name) for folder in (whole, again))
        assert ours == theirs, name
    assert harvest(whole, 2) == harvest(again, 2)
    shutil.rmtree(again)


def test_without_phases_nothing_of_them_is_in_the_run(config_file: Path):
    off = load_config(config_file)
    drawing: Any = type("Drawing", (), {"config": off})()
    state: Any = object()
    console: Any = None
    for made in range(3):
        same, metrics = Distilling(drawing, Path(), console).phase(state, made)
        assert same is state and metrics == {}


# The verb


def test_help_of_distill_says_what_it_does():
    shown = " ".join(CliRunner().invoke(app, ["distill", "--help"]).output.split())
    for text in ("pass@k well above exact match", "--only", "at_steps", "DIR/harvest"):
        assert text in shown


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, Path]]:
    """What the verb hands to training, instead of training."""
    handed: list[tuple[Config, Path]] = []
    monkeypatch.setattr(
        "jaxgrpo.train.train", lambda config, folder: handed.append((config, folder))
    )
    return handed


@pytest.mark.parametrize(
    ("table", "arguments", "at_steps", "only"),
    [
        ("", [], (0,), False),
        ("", ["distill.epochs=3"], (0,), False),
        ("[distill]\nepochs = 3\n", [], (0,), False),
        ("[distill]\nat_steps = [1, 3]\n", [], (1, 3), False),
        ("", ["distill.at_steps=[2]"], (2,), False),
        ("", ["--only"], (0,), True),
        ("[distill]\nat_steps = [0]\n", ["--only"], (0,), True),
    ],
)
def test_the_verb_begins_with_a_phase_unless_told_otherwise(
    config_file, trained, tmp_path, table, arguments, at_steps, only
):
    path = tmp_path / "mine.toml"
    path.write_text(config_file.read_text() + table)
    common = ["distill.num_problems=16"]
    result = CliRunner().invoke(app, ["distill", str(path), *common, *arguments])
    assert result.exit_code == 0, result.output
    ((checked, folder),) = trained
    assert checked.distill.at_steps == at_steps and checked.distill.only == only
    assert folder == Path("runs/mine_distilled")


@pytest.mark.parametrize(
    ("table", "arguments"),
    [("[distill]\nat_steps = [1, 3]\n", []), ("", ["distill.at_steps=[2]"])],
)
def test_only_does_not_override_steps_silently(
    config_file, trained, tmp_path, table, arguments
):
    path = tmp_path / "mine.toml"
    path.write_text(config_file.read_text() + table)
    common = ["distill", str(path), "distill.num_problems=16", "--only"]
    result = CliRunner().invoke(app, [*common, *arguments])
    assert result.exit_code == 2 and not trained
    assert "Set distill.at_steps=[0]." in " ".join(result.output.split())


def test_a_file_that_is_no_toml_is_refused_in_one_line(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("[run\n")
    assert not cli_distill._has_phases(path, [])
    result = CliRunner().invoke(app, ["distill", str(path)])
    assert result.exit_code == 2 and "broken.toml" in result.output


def test_the_phase_alone_leaves_weights_and_a_table(config_file, tmp_path):
    """With adapters, whose base a phase leaves as it is."""
    folder = tmp_path / "run"
    changes = [x for x in PHASES if "at_steps" not in x and "kl_coef" not in x]
    arguments = [*changes, "lora.rank=8", "distill.measure_samples=false", "--only"]
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch:
        seen.watch(patch)
        result = CliRunner().invoke(
            app, ["distill", str(config_file), *arguments, "--run", str(folder)]
        )
    assert result.exit_code == 0, result.output
    assert f"model.checkpoint={folder / 'export'}" in result.output
    (line,) = lines(folder)
    assert line["step"] == 0 and line["distill/hits"] > 0
    assert line["distill/loss_last"] < line["distill/loss_first"]
    assert "distill/after/top1_gap" not in line
    ((before, after),) = seen.states
    same = jax.tree.map(np.array_equal, before.base_params, after.base_params)
    assert all(jax.tree.leaves(same))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["num_steps"] == 0
    assert {"before", "after"} <= summary.keys()
    assert (folder / "export" / "config.json").exists()
