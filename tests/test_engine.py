"""The engine draws what the trainer would say it drew, whatever else is in flight."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.head import KeptTokens, head_logits, token_logprobs
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import bind, forward_completions, forward_prompts
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.sampling.choose import Choice
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN, run_key
from jaxgrpo.device.sampling.prefill import insert, prefill
from jaxgrpo.device.sampling.segment import decode_segment
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.engine import Engine, Request, Sample, SampledGroup
from jaxgrpo.host.stop_strings import StopStrings

NUM_REQUESTS, G, S, T = 9, 4, 16, 12
# Five tokens, two of which end a completion: every way to end is common. Three slots
# of two rows for nine prompts of four samples: slots and rows are refilled.
SETTINGS = SamplerSettings(
    group_size=G,
    num_slots=3,
    rows_per_slot=2,
    max_prompt_tokens=S,
    max_new_tokens=T,
    segment_steps=10,
    eos_ids=(2, 3),
    num_tokens=5,
    prefill_tokens=32,
)
TINY = PRESETS["qwen3-tiny"]


@pytest.fixture(scope="module")
def params() -> Any:
    """Random parameters in which every one matters: norms off 1, logits off flat."""
    from jaxgrpo.device.model.decoder import initial_params

    shapes = jax.eval_shape(lambda: initial_params(TINY, jax.random.key(0)))
    rng = np.random.default_rng(0)

    def draw(path: Any, leaf: Any) -> jax.Array:
        is_norm = path[-1].key == "scale"
        mean, spread = (1.0, 0.3) if is_norm else (0.0, 0.25)
        return jnp.asarray(rng.normal(mean, spread, leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def requests_of(indices: Sequence[int], budgets: Sequence[int] = ()) -> list[Request]:
    """Prompts of 1 to S tokens, each by its number."""
    rng = np.random.default_rng(3)
    lengths = [1, S, *rng.integers(1, S, NUM_REQUESTS - 2)]
    prompts = [rng.integers(0, 300, length).astype(np.int32) for length in lengths]
    return [
        Request(token_ids=prompts[i], problem_hash=(i, 7), budgets=budgets)
        for i in indices
    ]


def draw(
    params: Any,
    requests: Sequence[Request],
    settings: SamplerSettings = SETTINGS,
    *,
    temperature: float = 1.0,
    step: int = 0,
    stop: StopStrings | None = None,
    architecture: Architecture = TINY,
) -> list[SampledGroup]:
    """All groups, in the order in which they end."""
    engine = Engine(architecture, settings, stop)
    key = run_key(0, PURPOSE_TRAIN, step)
    return list(engine.sample(params, requests, run_key=key, temperature=temperature))


def by_index(groups: Sequence[SampledGroup]) -> list[SampledGroup]:
    return sorted(groups, key=lambda group: group.index)


@pytest.fixture(scope="module")
def drawn(params: Any) -> list[SampledGroup]:
    """Nine groups, in the order in which they end."""
    return draw(params, requests_of(range(NUM_REQUESTS)))


@pytest.fixture(scope="module")
def groups(drawn: list[SampledGroup]) -> list[SampledGroup]:
    return by_index(drawn)


def padded(rows: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    array = np.zeros((len(rows), *shape), dtype)
    for row, values in enumerate(rows):
        array[row, : len(values)] = np.array(values, dtype)
    return array


@pytest.fixture(scope="module")
def trainer_logprobs() -> Any:
    """Returns a function: log-probs as the trainer computes them, a prompt a row."""

    @jax.jit
    def run(params, prompts, completion_BT, lengths_B, kept_BTk, temperature):
        model = bind(TINY, params, jnp.dtype("float32"))
        hidden_BTD = forward_completions(
            model, prompts, completion_BT, jnp.arange(completion_BT.shape[0])
        )
        return token_logprobs(
            hidden_BTD, model.output_head_VD, completion_BT, temperature,
            num_tokens=SETTINGS.num_tokens,
            kept=None if kept_BTk is None else KeptTokens(kept_BTk),
            mask_BT=jnp.arange(T)[None, :] < lengths_B[:, None], chunk=1024,
        ).logprobs_BT  # fmt: skip

    def of_samples(
        params: Any, groups: Sequence[SampledGroup], temperature: float = 1.0
    ) -> list[np.ndarray]:
        requests = requests_of(range(NUM_REQUESTS))
        prompts = [
            requests[group.index].token_ids for group in groups for _ in range(G)
        ]
        samples = [sample for group in groups for sample in group.samples]
        lengths_B = np.array([len(sample.token_ids) for sample in samples])
        kept = [sample.kept_ids for sample in samples]
        logprobs_BT = run(
            params,
            Prompts(
                jnp.asarray(padded(prompts, (S,), np.int32)),
                jnp.array([len(prompt) for prompt in prompts]),
            ),
            jnp.asarray(padded([s.token_ids for s in samples], (T,), np.int32)),
            jnp.asarray(lengths_B),
            jnp.asarray(padded(kept, (T, len(kept[0][0])), np.int32))
            if kept[0]
            else None,
            temperature,
        )
        return [
            np.asarray(row)[:n] for row, n in zip(logprobs_BT, lengths_B, strict=True)
        ]

    return of_samples


def sampler_logprobs(groups: Sequence[SampledGroup]) -> list[np.ndarray]:
    return [np.array(sample.logprobs) for group in groups for sample in group.samples]


# Sampler and trainer


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_rows_that_share_a_prompt_say_what_the_trainer_says_of_rows_of_their_own(
    params: Any, trainer_logprobs: Any, temperature: float
) -> None:
    groups = by_index(
        draw(params, requests_of(range(NUM_REQUESTS)), temperature=temperature)
    )
    expected = trainer_logprobs(params, groups, temperature)
    for ours, theirs in zip(sampler_logprobs(groups), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_new_weights_are_used_at_once(params: Any, trainer_logprobs: Any) -> None:
    updated = jax.tree.map(lambda x: 1.1 * x, params)
    groups = by_index(draw(updated, requests_of(range(NUM_REQUESTS))))
    ours = np.concatenate(sampler_logprobs(groups))
    expected = np.concatenate(trainer_logprobs(updated, groups))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
    stale = np.concatenate(trainer_logprobs(params, groups))
    assert np.abs(stale - expected).max() > 0.1


@pytest.mark.parametrize("choice", [Choice(top_k=3), Choice(top_k=5, top_p=0.7)])
def test_the_ratio_to_the_trainer_is_one_under_truncation(
    params: Any, trainer_logprobs: Any, choice: Choice
) -> None:
    settings = SETTINGS._replace(choice=choice)
    requests = requests_of(range(NUM_REQUESTS))
    groups = by_index(draw(params, requests, settings, temperature=1.3))
    ours = np.concatenate(sampler_logprobs(groups))
    replayed = np.concatenate(trainer_logprobs(params, groups, 1.3))
    ratio = np.exp(replayed - ours)
    np.testing.assert_allclose(ratio, 1.0, rtol=0, atol=1e-5)
    assert f"{ratio.mean():.3f}" == "1.000"
    for sample in (sample for group in groups for sample in group.samples):
        assert len(sample.kept_ids) == len(sample.token_ids)
        sample.kept_ids = []
    # Over all tokens the probabilities would be smaller by the mass that was cut.
    of_all = np.concatenate(trainer_logprobs(params, groups, 1.3))
    assert np.exp(of_all - ours).mean() < 0.95


def test_first_tokens_follow_the_models_distribution(params: Any) -> None:
    requests = requests_of(range(NUM_REQUESTS), budgets=[1] * G)
    counts_PV = np.zeros((NUM_REQUESTS, 5))
    num_runs = 30
    for step in range(num_runs):
        for group in draw(params, requests, step=step):
            for sample in group.samples:
                counts_PV[group.index, sample.token_ids[0]] += 1
    model = bind(TINY, params, jnp.dtype("float32"))
    prompts = [request.token_ids for request in requests]
    hidden_P1D = forward_completions(
        model,
        Prompts(
            jnp.asarray(padded(prompts, (S,), np.int32)),
            jnp.array([len(prompt) for prompt in prompts]),
        ),
        jnp.zeros((NUM_REQUESTS, 1), int),
        jnp.arange(NUM_REQUESTS),
    )
    logits_P1V = head_logits(hidden_P1D, model.output_head_VD, 1.0, 5)
    probs_PV = np.asarray(jax.nn.softmax(logits_P1V[:, 0, :5]))
    expected_PV = num_runs * G * probs_PV
    statistic = ((counts_PV - expected_PV) ** 2 / expected_PV).sum()
    # 36 degrees of freedom: exceeded by chance once in 10,000.
    assert statistic < 77.0


# What else is in flight


def assert_same_samples(ours: SampledGroup, theirs: SampledGroup) -> None:
    for one, other in zip(ours.samples, theirs.samples, strict=True):
        assert one.token_ids == other.token_ids
        assert one.logprobs == other.logprobs
        assert one.finish_reason == other.finish_reason


def test_refilling_changes_no_token(params: Any, groups: list[SampledGroup]) -> None:
    for start in range(0, NUM_REQUESTS, 3):
        # As many as there are slots: nothing is refilled.
        alone = draw(params, requests_of(range(start, start + 3)))
        for group in alone:
            assert_same_samples(group, groups[start + group.index])


def test_the_order_of_the_queue_changes_no_token(
    params: Any, groups: list[SampledGroup]
) -> None:
    # One of them twice, so that all later ones meet other slots, rows and steps.
    order = [5, 2, 8, 2, 0, 7, 1, 6, 3, 4]
    shuffled = draw(params, requests_of(order))
    assert [group.index for group in shuffled] != sorted(range(len(order)))
    for group in shuffled:
        assert_same_samples(group, groups[order[group.index]])


def test_blocks_side_by_side_draw_the_same_but_for_rounding(
    params: Any, groups: list[SampledGroup]
) -> None:
    settings = SETTINGS._replace(attends_side_by_side=True, segment_steps=5)
    program: Any = decode_segment
    before = program._cache_size()
    order = [5, 2, 8, 2, 0, 7, 1, 6, 3, 4]
    for group in draw(params, requests_of(order), settings):
        theirs = groups[order[group.index]]
        for one, other in zip(group.samples, theirs.samples, strict=True):
            assert one.token_ids == other.token_ids
            np.testing.assert_allclose(one.logprobs, other.logprobs, rtol=0, atol=1e-5)
    # Two blocks of the ring, and all three: it is 12 columns long.
    assert program._cache_size() == before + 2


def test_groups_come_as_they_end(drawn: list[SampledGroup]) -> None:
    order = [group.index for group in drawn]
    assert sorted(order) == list(range(NUM_REQUESTS))
    assert order != sorted(order)


def test_samples_of_a_prompt_differ_and_do_so_from_step_to_step(
    params: Any, groups: list[SampledGroup]
) -> None:
    longest = max(groups, key=lambda g: sum(len(s.token_ids) for s in g.samples))
    assert len({tuple(sample.token_ids) for sample in longest.samples}) > 2
    (later,) = draw(params, requests_of([longest.index]), step=1)
    assert [s.token_ids for s in later.samples] != [
        s.token_ids for s in longest.samples
    ]


@pytest.mark.parametrize("width", [16, 64])
def test_the_bucket_of_a_prompt_moves_its_states_by_rounding_only(
    params: Any, width: int
) -> None:
    (request,) = requests_of([3])
    token_ids_1S = padded([request.token_ids], (width,), np.int32)
    prompts = Prompts(jnp.asarray(token_ids_1S), jnp.array([len(request.token_ids)]))
    ours = prefill(params, prompts, architecture=TINY, settings=SETTINGS.forward)
    model = bind(TINY, params, jnp.dtype("float32"))
    exact = Prompts(jnp.asarray(request.token_ids)[None], prompts.lengths_P)
    hidden_1SD, prefix = forward_prompts(model, exact)
    np.testing.assert_allclose(ours.last_PD[0], hidden_1SD[0, -1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        ours.prefix.k_LPSKH[:, :, : len(request.token_ids)],
        prefix.k_LPSKH,
        rtol=0,
        atol=1e-5,
    )


def test_one_program_is_compiled_for_a_bucket(params: Any) -> None:
    programs: list[Any] = [prefill, insert, decode_segment]
    before = [program._cache_size() for program in programs]
    settings = SETTINGS._replace(max_prompt_tokens=200, segment_steps=4)
    rng = np.random.default_rng(0)
    requests = [
        Request(token_ids=rng.integers(0, 300, length), problem_hash=(length, 0))
        for length in (3, 150, 128, 129, 1, 200, 90)
    ]
    draw(params, requests, settings)
    # Two buckets, 128 and 256 wide, and one program for all segments.
    compiled = [program._cache_size() for program in programs]
    assert list(np.subtract(compiled, before)) == [2, 2, 1]
    draw(jax.tree.map(lambda x: 0.5 * x, params), requests[::-1], settings, step=3)
    assert [program._cache_size() for program in programs] == compiled


# How samples end


def test_a_sample_ends_with_its_first_end_token_or_at_its_budget(
    groups: list[SampledGroup],
) -> None:
    ends = set()
    for sample in (sample for group in groups for sample in group.samples):
        tokens = sample.token_ids
        assert len(sample.logprobs) == len(tokens)
        assert max(sample.logprobs) < 0 and set(tokens) <= set(range(5))
        assert not set(tokens[:-1]) & {2, 3}
        if sample.finish_reason == "eos":
            ends.add((len(tokens) == 1, tokens[-1]))
        else:
            assert sample.finish_reason == "length"
            assert len(tokens) == T and tokens[-1] not in (2, 3)
            ends.add("length")
    # Both end tokens, as the first token and later, and no end at all, did occur.
    assert ends == {(True, 2), (True, 3), (False, 2), (False, 3), "length"}


def test_budgets_of_samples_cut_what_they_would_have_been(
    params: Any, groups: list[SampledGroup]
) -> None:
    budgets = [1, T, 3, 2]
    cut = by_index(draw(params, requests_of(range(NUM_REQUESTS), budgets)))
    for ours, whole in zip(cut, groups, strict=True):
        for budget, one, other in zip(
            budgets, ours.samples, whole.samples, strict=True
        ):
            assert one.token_ids == other.token_ids[:budget]
            has_ended = len(other.token_ids) <= budget
            assert one.finish_reason == (other.finish_reason if has_ended else "length")


def test_greedy_tokens_are_the_argmax_and_take_the_budget_without_end_tokens(
    params: Any,
) -> None:
    settings = SETTINGS._replace(
        group_size=1, rows_per_slot=1, eos_ids=(), num_tokens=300,
        choice=Choice(is_greedy=True),
    )  # fmt: skip
    requests = requests_of(range(NUM_REQUESTS))
    groups = by_index(draw(params, requests, settings, temperature=0.3))
    samples = [group.samples[0] for group in groups]
    assert {(len(s.token_ids), s.finish_reason) for s in samples} == {(T, "length")}
    model = bind(TINY, params, jnp.dtype("float32"))
    prompts = [request.token_ids for request in requests]
    token_ids_BT = padded([sample.token_ids for sample in samples], (T,), np.int32)
    hidden_BTD = forward_completions(
        model,
        Prompts(
            jnp.asarray(padded(prompts, (S,), np.int32)),
            jnp.array([len(prompt) for prompt in prompts]),
        ),
        jnp.asarray(token_ids_BT),
        jnp.arange(NUM_REQUESTS),
    )
    logits_BTV = head_logits(hidden_BTD, model.output_head_VD, 1.0, 300)
    logprobs_BTV = np.asarray(jax.nn.log_softmax(logits_BTV))
    np.testing.assert_array_equal(token_ids_BT, logprobs_BTV.argmax(axis=-1))
    logprobs_BT = np.array([sample.logprobs for sample in samples])
    np.testing.assert_allclose(logprobs_BT, logprobs_BTV.max(-1), rtol=0, atol=1e-5)


PIECES = [b"ab", b"c", b"", b"", b"a"]
"""What the five tokens write; 2 and 3 end a completion."""


def written(sample: Sample) -> str:
    return b"".join(PIECES[token_id] for token_id in sample.token_ids).decode()


def test_a_stop_string_ends_a_sample_at_the_token_that_completes_it(
    params: Any, groups: list[SampledGroup]
) -> None:
    stop = StopStrings(["bca", "aaa"], PIECES)
    # Looked for every fourth token: rows go on for a while, and what they say is cut.
    settings = SETTINGS._replace(segment_steps=4)
    stopped = by_index(
        draw(params, requests_of(range(NUM_REQUESTS)), settings, stop=stop)
    )
    num_stopped = 0
    for ours, whole in zip(stopped, groups, strict=True):
        for one, other in zip(ours.samples, whole.samples, strict=True):
            length = len(one.token_ids)
            assert one.token_ids == other.token_ids[:length]
            np.testing.assert_allclose(
                one.logprobs, other.logprobs[:length], rtol=0, atol=1e-5
            )
            found = [text for text in stop.texts if text in written(one)]
            assert bool(found) == (one.finish_reason == "stop")
            if not found:
                assert one.finish_reason == other.finish_reason
                assert length == len(other.token_ids)
                continue
            num_stopped += 1
            # Without its last token the sample holds none of the texts.
            one.token_ids.pop()
            assert not any(text in written(one) for text in stop.texts)
    assert num_stopped > 3


# Refusals


def test_impossible_settings_and_requests_are_refused(params: Any) -> None:
    with pytest.raises(ValueError, match=r"5 rows per slot for groups of 4"):
        Engine(TINY, SETTINGS._replace(rows_per_slot=5))
    with pytest.raises(ValueError, match=r"top_k 6 is more than the tokenizer's 5"):
        Engine(TINY, SETTINGS._replace(choice=Choice(top_k=6)))
    too_long = Request(token_ids=np.zeros(S + 1, np.int32), problem_hash=(0, 0))
    with pytest.raises(ValueError, match=r"has 17 tokens; from 1 to 16 fit"):
        draw(params, [too_long])
    for budgets in ([1, 2, 3], [0, 1, 1, 1], [1, 1, 1, T + 1]):
        with pytest.raises(ValueError, match=r"for 4 samples of 1 to 12 tokens"):
            draw(params, requests_of([0], budgets))
