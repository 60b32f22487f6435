"""Token-in, token-out: what was sampled is trained on, and nothing is re-encoded."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxgrpo.batching import rows_of_completions, update_arrays
from jaxgrpo.config import Config
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.host.judge import judge
from jaxgrpo.host.records import Problem, Score
from jaxgrpo.policy import load_policy
from jaxgrpo.rollout_table import read_rollouts, write_rollouts
from jaxgrpo.sampling import drawn_groups, training_engine

PACKAGE = Path(__file__).parents[1] / "jaxgrpo"
MAY_ENCODE = {
    "host/prompts.py",  # prompts
    "imitation.py",  # references that are imitated: no model has sampled them
}


def encodes(tree: ast.AST) -> bool:
    """Whether a module calls a tokenizer, or one of its methods that encode."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        owner, _, method = name.rpartition(".")
        is_tokenizer = name.split(".")[-1] == "tokenizer"
        is_method = owner.split(".")[-1] in ("tokenizer", "backend_tokenizer")
        is_method &= method in ("encode", "encode_batch", "tokenize", "__call__")
        if is_tokenizer or is_method:
            return True
    return False


def test_only_prompts_and_references_are_encoded():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if encodes(ast.parse(path.read_text()))
    }
    assert found == MAY_ENCODE


class Spy:
    """A tokenizer that remembers what it is asked to encode."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.encoded: list[str] = []

    def __call__(self, text: str, **options: Any) -> Any:
        self.encoded.append(text)
        return self._tokenizer(text, **options)

    def __len__(self) -> int:
        return len(self._tokenizer)

    def __getattr__(self, name: str) -> Any:
        assert name not in ("encode", "tokenize", "encode_batch"), name
        return getattr(self._tokenizer, name)


def test_a_step_encodes_its_prompts_and_trains_on_the_sampled_ids(tmp_path: Path):
    config = Config.model_validate(
        {
            "model": {
                "preset": "qwen3-tiny",
                "tokenizer": "builtin:output_prediction_tokenizer",
            },
            "rewards": {"exact": {}},
            "prompt": {"max_prompt_tokens": 48},
            "sampling": {"problems_per_step": 2, "group_size": 4, "max_new_tokens": 8},
        }
    )
    policy = load_policy(config.model, config.prompt)
    spy = Spy(policy.tokenizer)
    policy = replace(policy, tokenizer=spy)  # type: ignore[arg-type]
    params = initial_params(policy.architecture, jax.random.key(0))
    problems = [
        Problem(id=f"p{i}", kind="output", prompt=f"print({i})", reference=f"{i}")
        for i in range(2)
    ]
    prompts = [policy.encode(problem) for problem in problems]
    groups = [
        group
        for _, group in drawn_groups(
            training_engine(config, policy), params, policy, problems, prompts,
            seed=0, purpose=PURPOSE_TRAIN, step=0, temperature=1.0, policy_step=0,
        )
    ]  # fmt: skip
    scored = [
        replace(
            group,
            scores=tuple(
                Score(rewards={"exact": 0.0}, verdict=judge(group.problem, c))
                for c in group.completions
            ),
        )
        for group in groups
    ]
    _, rollouts, _ = update_arrays(
        scored, ["exact"], seed=0, purpose=PURPOSE_TRAIN, step=0, num_prompts=2,
        num_rows=8, num_positions=48, num_columns=8,
    )  # fmt: skip
    completions = [c for group in scored for c in group.completions]
    zeros = np.zeros((8, 8), np.float32)
    write_rollouts(
        tmp_path, 1, scored, rewards_total=zeros[0], advantages=zeros[0],
        trainer_logprobs=zeros, entropies=zeros,
    )  # fmt: skip
    assert spy.encoded == [prompt.text for prompt in prompts]
    kept = read_rollouts(tmp_path).column("token_ids").to_pylist()
    for index, row in enumerate(rows_of_completions(scored)):
        sampled = completions[index].token_ids
        length = int(rollouts.lengths_B[row])
        np.testing.assert_array_equal(rollouts.completion_BT[row, :length], sampled)
        assert kept[index] == sampled.tolist()
    # The test would see it: a random model writes texts that encode to other ids.
    again = [spy(c.text, add_special_tokens=False)["input_ids"] for c in completions]
    assert any(
        ids != c.token_ids.tolist() for ids, c in zip(again, completions, strict=True)
    )
