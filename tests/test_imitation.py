"""Batches to imitate: every example once, padding masked, resumable anywhere."""

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import jax
import numpy as np
import pytest

from jaxgrpo import imitation
from jaxgrpo.config import ModelConfig, PromptConfig
from jaxgrpo.device.supervised import Examples
from jaxgrpo.host.records import Problem
from jaxgrpo.imitation import WIDTH_STEP, ExampleStream
from jaxgrpo.policy import Policy, load_policy
from jaxgrpo.problems.lesson import Lesson
from jaxgrpo.problems.output_prediction.notation import foreign_notation
from jaxgrpo.problems.targets import target_style

BATCH, WINDOW_BATCHES, NUM_PROBLEMS = 4, 3, 20
WINDOW = BATCH * WINDOW_BATCHES
# Windows run over the seams of epochs, and end with every third one.
THREE_EPOCHS = 3 * NUM_PROBLEMS // BATCH
CLEAN = target_style("output_prediction", "reference")
MIXED = target_style("output_prediction", "mixed")

PROBLEMS = [
    Problem(
        id=f"p{index:02d}",
        kind="output",
        prompt=f"f({index})",
        # Answers of different length and every kind of notation.
        reference=repr(["a", index, True] * (1 + index % 7)),
    )
    for index in range(NUM_PROBLEMS)
]


@pytest.fixture(scope="module")
def policy() -> Policy:
    model = ModelConfig(
        preset="qwen3-tiny", tokenizer="builtin:output_prediction_tokenizer"
    )
    return load_policy(model, PromptConfig())


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitation, "WINDOW_BATCHES", WINDOW_BATCHES)


def batches_of(examples: ExampleStream, num_batches: int) -> list[Examples]:
    """The next batches, as NumPy arrays."""
    some: Any = islice(examples, num_batches)
    return [jax.tree.map(np.asarray, batch) for batch in some]


def stream_of(policy: Policy, **changes: Any) -> ExampleStream:
    settings: dict[str, Any] = {
        "problems": PROBLEMS,
        "style": CLEAN,
        "share": 0.0,
        "batch_size": BATCH,
        "max_prompt_tokens": 96,
        "seed": 0,
    }
    settings |= changes
    problems, style = settings.pop("problems"), settings.pop("style")
    return ExampleStream(problems, policy, style, **settings)


def rows_of(policy: Policy, batch: Examples) -> list[tuple[str, str]]:
    """The text of the prompt, and of the completion without its end, of real rows."""
    decode = policy.tokenizer.decode
    rows = []
    for ids, prompt_length, length in zip(*batch, strict=True):
        if length:
            assert ids[length - 1] == policy.eos_ids[0]
            completion = decode(ids[prompt_length : length - 1])
            rows.append((decode(ids[:prompt_length]), completion))
    return rows


def same(left: Examples, right: Examples) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def expected_rows(policy: Policy, answers: dict[str, str]) -> list[tuple[str, str]]:
    return [(policy.encode(p).text, answers[p.id]) for p in PROBLEMS]


def test_every_example_is_seen_once_an_epoch(policy):
    batches = batches_of(stream_of(policy), THREE_EPOCHS)
    rows = [row for batch in batches for row in rows_of(policy, batch)]
    answers = {problem.id: problem.reference for problem in PROBLEMS}
    assert sorted(rows) == sorted(expected_rows(policy, answers) * 3)


def test_a_window_holds_its_problems_once_sorted_by_length_and_batches_shuffled(policy):
    batches = batches_of(stream_of(policy, batch_size=2), 4 * WINDOW_BATCHES)
    orders = set()
    for start in range(0, len(batches), WINDOW_BATCHES):
        window = batches[start : start + WINDOW_BATCHES]
        spans = [(b.lengths_B.min(), b.lengths_B.max()) for b in window]
        ordered = sorted(spans)
        for (_, longest), (shortest, _) in zip(ordered, ordered[1:], strict=False):
            assert longest <= shortest
        orders.add(tuple(ordered.index(span) for span in spans))
        rows = [row for batch in window for row in rows_of(policy, batch)]
        assert len(set(rows)) == 2 * WINDOW_BATCHES
    assert len(orders) > 1


def test_what_is_not_real_is_padding(policy):
    # A prompt too long leaves a hole in its window, and a row that is empty.
    long = replace(PROBLEMS[0], id="long", prompt="x = 1\n" * 60)
    stream = stream_of(policy, problems=[*PROBLEMS[: WINDOW - 1], long])
    batches = batches_of(stream, WINDOW_BATCHES)
    lengths = np.concatenate([batch.lengths_B for batch in batches])
    assert (lengths == 0).sum() == 1
    for batch in batches:
        assert batch.token_ids_BS.shape[0] == BATCH
        assert batch.token_ids_BS.shape[1] % WIDTH_STEP == 0
        assert batch.token_ids_BS.shape[1] - batch.lengths_B.max() < WIDTH_STEP
        is_real_BS = (
            np.arange(batch.token_ids_BS.shape[1])[None, :] < batch.lengths_B[:, None]
        )
        assert not batch.token_ids_BS[~is_real_BS].any()
        assert (batch.prompt_lengths_B <= batch.lengths_B).all()


def test_long_prompts_are_left_out_and_counted(policy):
    limit = len(policy.encode(PROBLEMS[0]).token_ids)  # one digit fits, two do not
    stream = stream_of(policy, max_prompt_tokens=limit)
    batches = batches_of(stream, 2 * NUM_PROBLEMS // BATCH)
    kept = {row for batch in batches for row in rows_of(policy, batch)}
    assert len(kept) == 10
    assert stream.num_dropped > 0


def test_a_window_without_a_prompt_that_fits_is_refused(policy):
    with pytest.raises(ValueError, match="all 12 prompts .*max_prompt_tokens 2. Raise"):
        next(stream_of(policy, max_prompt_tokens=2))


def test_tokens_are_counted(policy):
    stream = stream_of(policy)
    batches = batches_of(stream, 5)
    assert stream.num_tokens == sum(int(batch.lengths_B.sum()) for batch in batches)


def test_mixed_notation_writes_the_share_it_was_asked_for(policy):
    batches = batches_of(stream_of(policy, style=MIXED, share=0.6), THREE_EPOCHS)
    rows = [row for batch in batches for row in rows_of(policy, batch)]
    answers = {p.id: foreign_notation(p.reference, p.id, 0.6) for p in PROBLEMS}
    assert sorted(rows) == sorted(expected_rows(policy, answers) * 3)
    assert 0 < sum(answers[p.id] != p.reference for p in PROBLEMS) < NUM_PROBLEMS


def test_a_lesson_may_put_a_problem_with_a_hint(policy):
    def hinted(problem: Problem, share: float) -> Lesson:
        told = replace(problem, hints=("Look closely.",))
        return Lesson(problem=told, target="yes", variant="hint-1")

    ((prompt, completion), *_) = rows_of(policy, next(stream_of(policy, style=hinted)))
    assert "\n\nLook closely.<|im_end|>" in prompt
    assert completion == "yes"


def test_seed_decides_the_order(policy):
    first, second = (stream_of(policy, seed=seed) for seed in (0, 0))
    assert all(same(next(first), next(second)) for _ in range(6))
    other = stream_of(policy, seed=1)
    again = stream_of(policy)
    assert not all(same(next(again), next(other)) for _ in range(6))


@pytest.mark.parametrize("num_drawn", range(2 * WINDOW_BATCHES + 2))
def test_a_restored_position_continues_exactly(policy, num_drawn):
    # Long prompts and their count, mid-window, window seams and an epoch's end.
    limit = len(policy.encode(PROBLEMS[0]).token_ids)
    original = stream_of(policy, max_prompt_tokens=limit)
    for _ in range(num_drawn):
        next(original)
    state = json.loads(json.dumps(original.state_dict()))
    restored = stream_of(policy, max_prompt_tokens=limit)
    next(restored)
    restored.load_state_dict(state)
    assert restored.state_dict() == original.state_dict()
    for _ in range(2 * WINDOW_BATCHES):
        assert same(next(restored), next(original))
    assert restored.state_dict() == original.state_dict()
