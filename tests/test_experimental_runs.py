"""Credit by the policy itself, and by grades, in whole runs of two steps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgrpo.config_loading import load_config
from jaxgrpo.glossary import definition
from jaxgrpo.rollout_table import read_rollouts
from jaxgrpo.train import train
from tests.test_credit_run import RUN

PLAIN = RUN.replace('[credit]\nmethod = "egca"', "").replace(
    'localization = "random"\nprompt_constraints = true\n', ""
)
METHODS = {
    "redistribution": ['redistribution.graders=["ruff","length","complexity"]'],
    "oar": ["experimental.method=oar", "experimental.within_answer=true"],
    "sc_grpo": ["experimental.method=sc_grpo", "experimental.reference_tokens=256"],
    "s_trace": ["experimental.method=s_trace", "objective.updates_per_rollout=2"],
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: Any, session_cache: Path):
    """Returns the run folder of a method."""
    folder = tmp_path_factory.mktemp("experimental")
    path = folder / "run.toml"
    path.write_text(PLAIN.format(cache=session_cache))

    def run_of(method: str) -> Path:
        train(load_config(path, METHODS[method]), folder / method)
        return folder / method

    return run_of


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_learns_with_it_and_says_how(method, run_of):
    run = run_of(method)
    lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    assert len(steps) == 2
    for line in steps:
        names = [n for n in line if n.startswith(("experimental/", "redistribution/"))]
        assert names and all(definition(name) for name in names)
        assert {name.split("/")[-2] for name in names} == {method}
        assert line["update_skipped"] == 0 and np.isfinite(line["grad_norm"])
    rows = read_rollouts(run).to_pylist()
    if method in ("redistribution", "s_trace"):
        assert all(row["credit"] is None for row in rows)
        credits = [np.ones(len(row["token_ids"])) for row in rows]
    else:
        credits = [np.array(row["credit"]) for row in rows]
    lengths = np.array([len(row["token_ids"]) for row in rows])
    sums = np.array([credit.sum() for credit in credits])
    if method == "sc_grpo":
        assert (sums <= lengths * (1 + 1e-6)).all()
        assert max(line["experimental/sc_grpo/mixed"] for line in steps) > 0
        assert (sums < 0.9 * lengths).any()
    else:
        np.testing.assert_allclose(sums, lengths, rtol=1e-5)
    if method == "oar":
        assert any(credit.max() > 1.5 for credit in credits)
    if method == "redistribution":
        assert max(line["redistribution/graded_groups"] for line in steps) > 0
        grades = [json.loads(row["extra"]).get("quality") for row in rows]
        assert {"ruff", "length", "complexity"} == set(next(filter(None, grades)))
