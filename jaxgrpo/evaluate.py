"""Measures a policy on held-out problems: one greedy pass, and samples for pass@k."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxgrpo.config import Config, EvaluationConfig
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.sampling.keys import PURPOSE_EVALUATE
from jaxgrpo.engine import Engine
from jaxgrpo.host.judge import INFRA_CLASS
from jaxgrpo.host.judge.literal import LITERAL_CLASSES
from jaxgrpo.host.prompts import split_by_length
from jaxgrpo.host.records import Group, Problem, Prompt
from jaxgrpo.host.scorer import ScoreFuture, Scorer
from jaxgrpo.policy import Policy
from jaxgrpo.sampling import build_engine, drawn_groups
from jaxgrpo.step_metrics import error_share, is_judged

Evaluation = dict[str, Any]
"""`num_problems`, `dropped_prompts` and {"value", "se"} by metric name."""


def evaluate(
    params: Weights,
    policy: Policy,
    problems: Sequence[Problem],
    scorer: Scorer,
    config: Config,
    *,
    step: int,
    with_samples: bool,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Greedy exact match and error taxonomy; with samples also pass@k and dead groups.

    Args:
      params: Weights.
      policy: The model.
      problems: Held-out problems; those whose prompt is too long are counted and left
        out.
      scorer: Judges.
      config: Of the run.
      step: Updates made; part of the samples' random keys.
      with_samples: Whether to draw samples as well.
      report: Called with (prompts done, prompts in all).

    Returns:
      Values with standard errors over problems.
    """
    e = config.evaluation
    prompts = [policy.encode(problem) for problem in problems]
    fitting, too_long = split_by_length(prompts, config.prompt.max_prompt_tokens)
    if not fitting:
        raise ValueError(
            f"all {len(prompts)} prompts are longer than prompt.max_prompt_tokens "
            f"{config.prompt.max_prompt_tokens}. Raise it."
        )
    by_id = {problem.id: problem for problem in problems}
    pairs = [(by_id[prompt.problem_id], prompt) for prompt in fitting]
    total = len(pairs) * (2 if with_samples else 1)
    measured = partial(_groups, params, policy, pairs, scorer, config, step)
    greedy = measured(is_greedy=True, report=lambda done: report(done, total))
    evaluation: Evaluation = {
        "num_problems": len(pairs),
        "dropped_prompts": len(too_long),
    }
    evaluation |= greedy_results(greedy)
    if with_samples:
        sampled = measured(
            is_greedy=False, report=lambda done: report(len(pairs) + done, total)
        )
        evaluation |= sampled_results(sampled, e)
    return evaluation


def evaluation_engine(
    config: Config, policy: Policy, *, is_greedy: bool, platform: str | None = None
) -> Engine:
    """The engine of one of an evaluation's two passes.

    Both draw as many completions at a time: one of each problem, or several of fewer.

    Args:
      config: Of the run.
      policy: The model.
      is_greedy: The greedy pass, not the samples.
      platform: As for `build_engine`.
    """
    e = config.evaluation
    rows = e.batch_problems * e.samples_per_problem
    return build_engine(
        config,
        policy,
        group_size=1 if is_greedy else e.samples_per_problem,
        num_slots=rows if is_greedy else e.batch_problems,
        is_greedy=is_greedy,
        platform=platform,
    )


def _groups(
    params: Weights,
    policy: Policy,
    pairs: Sequence[tuple[Problem, Prompt]],
    scorer: Scorer,
    config: Config,
    step: int,
    *,
    is_greedy: bool,
    report: Callable[[int], None],
) -> list[Group]:
    """Scored completions of all problems, in their order."""
    e = config.evaluation
    engine = evaluation_engine(config, policy, is_greedy=is_greedy)
    problems, prompts = zip(*pairs, strict=True)
    drawn = drawn_groups(
        engine,
        params,
        policy,
        problems,
        prompts,
        seed=config.run.seed,
        purpose=PURPOSE_EVALUATE,
        step=step,
        temperature=e.temperature,
        policy_step=step,
    )
    scored = scored_groups(submit_each(scorer, drawn, report))
    check_errors(scored, config.scorer.max_error_share)
    return scored


def check_errors(groups: Sequence[Group], limit: float) -> None:
    """Stops where too many rows could not be judged.

    Args:
      groups: After scoring.
      limit: Largest share of such rows.

    Raises:
      RuntimeError: The share is above the limit.
    """
    share = error_share(groups)
    if share > limit:
        raise RuntimeError(
            f"{share:.0%} of {sum(len(g.scores) for g in groups)} rows could not be "
            f"scored, more than scorer.max_error_share {limit:.0%}. Look at "
            "`jaxgrpo doctor`, and at abstain reasons in the rollouts table."
        )


Submitted = list[tuple[int, Group, ScoreFuture]]
"""Groups that are being scored, each with its problem's place."""


def submit_each(
    scorer: Scorer,
    drawn: Iterable[tuple[int, Group]],
    report: Callable[[int], None] = lambda done: None,
) -> Submitted:
    """Hands groups to the scorer as they come, so that it works while others are drawn.

    Args:
      scorer: Judges.
      drawn: Groups with their problems' places, in the order in which they end.
      report: Called with the number of groups so far.
    """
    submitted: Submitted = []
    for index, group in drawn:
        submitted.append((index, group, scorer.submit(group)))
        report(len(submitted))
    return submitted


def scored_groups(submitted: Submitted) -> list[Group]:
    """The groups with their scores, in the order of their problems.

    So nothing that follows depends on which group ended first.
    """
    return [
        Group(
            problem=group.problem,
            prompts=group.prompts,
            completions=group.completions,
            scores=tuple(future.result()),
        )
        for _, group, future in sorted(submitted, key=lambda entry: entry[0])
    ]


def greedy_results(groups: Sequence[Group]) -> Evaluation:
    """Exact match and shares of error classes of greedy completions.

    A completion that could not be judged counts as not exact and shows in `errored`.
    """
    classes = [group.scores[0].error_class for group in groups]
    lengths = [len(group.completions[0].token_ids) for group in groups]
    clipped = [group.completions[0].finish_reason == "length" for group in groups]
    results = {"exact_match": _mean([c == "exact" for c in classes])}
    for name in LITERAL_CLASSES:
        results[f"taxonomy/{name}"] = _mean([c == name for c in classes])
    results["errored"] = _mean([c == INFRA_CLASS for c in classes])
    results["mean_length"] = _mean(lengths)
    results["clipped_ratio"] = _mean(clipped)
    return results


def sampled_results(groups: Sequence[Group], e: EvaluationConfig) -> Evaluation:
    """pass@k and shares of dead groups from samples.

    A sample that could not be judged is as if it had not been drawn; a problem with
    fewer than k judged samples is left out of pass@k.
    """
    judged = [
        [s.verdict.is_correct for s in group.scores if is_judged(s)]  # type: ignore[union-attr]
        for group in groups
    ]
    counts = [(len(flags), sum(flags)) for flags in judged if flags]
    results = {
        f"pass@{k}": _mean([pass_at_k(n, c, k) for n, c in counts if n >= k])
        for k in e.pass_at
    }
    results["groups/all_wrong"] = _mean([c == 0 for _, c in counts])
    results["groups/mixed"] = _mean([0 < c < n for n, c in counts])
    results["groups/all_correct"] = _mean([c == n for n, c in counts])
    return results


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k samples is correct.

        pass@k = 1 - C(n - c, k) / C(n, k)

    Args:
      num_samples: n, at least k.
      num_correct: c, in [0, n].
      k: At least 1.

    Example:
      >>> pass_at_k(8, 2, 1), pass_at_k(8, 2, 8), pass_at_k(8, 0, 4)
      (0.25, 1.0, 0.0)

    Reference:
      Chen et al., Evaluating Large Language Models Trained on Code, 2021,
      https://arxiv.org/abs/2107.03374, equation 1.
    """
    assert 1 <= k <= num_samples, f"pass@{k} from {num_samples} samples"
    wrong = num_samples - num_correct
    return 1.0 - math.comb(wrong, k) / math.comb(num_samples, k)


def _mean(values: Sequence[float]) -> dict[str, float]:
    """The mean and its standard error over problems."""
    if not len(values):
        return {"value": math.nan, "se": math.nan}
    array = np.asarray(values, np.float64)
    se = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else 0.0
    return {"value": float(array.mean()), "se": float(se)}
