"""Measures a policy on held-out problems: one greedy pass, and samples for pass@k."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jaxgrpo.config import Config
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.sampling.keys import PURPOSE_EVALUATE
from jaxgrpo.engine import Engine
from jaxgrpo.evaluation.generations import Generations
from jaxgrpo.evaluation.outcomes import (
    Answer,
    Evaluation,
    Outcome,
    answers_of,
    columns_of,
    summary,
)
from jaxgrpo.host.prompts import split_by_length
from jaxgrpo.host.records import Group, Problem, Prompt
from jaxgrpo.host.scorer import ScoreFuture, Scorer
from jaxgrpo.policy import Policy
from jaxgrpo.sampling import build_engine, drawn_groups
from jaxgrpo.step_metrics import error_share, failures_of

Report = Callable[[int, int], None]
"""Takes (prompts done, prompts in all)."""


class Measured(NamedTuple):
    """What became of the problems that were measured."""

    outcomes: list[Outcome]
    """In the problems' order."""
    num_dropped: int
    """Problems left out because their prompt is too long."""

    def evaluation(self, config: Config) -> Evaluation:
        """Returns means over problems with their standard errors."""
        columns = columns_of(self.outcomes, config.evaluation.pass_at)
        return summary(columns, self.num_dropped)


def evaluate(
    params: Weights,
    policy: Policy,
    problems: Sequence[Problem],
    scorer: Scorer,
    config: Config,
    *,
    step: int,
    with_samples: bool,
    report: Report = lambda done, total: None,
) -> Evaluation:
    """Greedy exact match and kinds of error; with samples also pass@k and dead groups.

    Args are those of `outcomes_of`.

    Returns:
      Values with standard errors over problems.
    """
    measured = outcomes_of(
        params, policy, problems, scorer, config,
        step=step, with_samples=with_samples, report=report,
    )  # fmt: skip
    return measured.evaluation(config)


def outcomes_of(
    params: Weights,
    policy: Policy,
    problems: Sequence[Problem],
    scorer: Scorer,
    config: Config,
    *,
    step: int,
    with_samples: bool,
    policy_step: int | None = None,
    keep: Path | None = None,
    report: Report = lambda done, total: None,
) -> Measured:
    """What became of each problem: one greedy completion, and samples if asked for.

    Args:
      params: Weights.
      policy: The model.
      problems: Held-out problems, no two of one id; those whose prompt is too long are
        counted and left out.
      scorer: Judges.
      config: Of the run.
      step: Part of the samples' random keys.
      with_samples: Whether to draw samples as well.
      policy_step: Updates made; `step` if not given.
      keep: Folder in which all generations are kept. Those that it holds already are
        not drawn again: an interrupted evaluation goes on. None keeps nothing.
      report: Called as prompts are done.

    Raises:
      ValueError: No prompt fits, or an id occurs twice.
      RuntimeError: Too many completions could not be judged.
    """
    prompts = [policy.encode(problem) for problem in problems]
    fitting, too_long = split_by_length(prompts, config.prompt.max_prompt_tokens)
    if not fitting:
        raise ValueError(
            f"all {len(prompts)} prompts are longer than prompt.max_prompt_tokens "
            f"{config.prompt.max_prompt_tokens}. Raise it."
        )
    by_id = {problem.id: problem for problem in problems}
    if len(by_id) < len(problems):
        ((name, number),) = Counter(p.id for p in problems).most_common(1)
        raise ValueError(f"problem id {name!r} occurs {number} times. Make ids unique.")
    pairs = [(by_id[prompt.problem_id], prompt) for prompt in fitting]
    total = len(pairs) * (2 if with_samples else 1)
    answers = partial(
        _answers, params, policy, pairs, scorer, config,
        step=step, policy_step=step if policy_step is None else policy_step, keep=keep,
    )  # fmt: skip
    greedy = answers(is_greedy=True, report=lambda done: report(done, total))
    sampled: dict[str, tuple[Answer, ...]] = {}
    if with_samples:
        sampled = answers(
            is_greedy=False, report=lambda done: report(len(pairs) + done, total)
        )
    outcomes = [
        Outcome(
            problem_id=problem.id,
            kind=problem.kind,
            tags=problem.tags,
            greedy=greedy[problem.id][0],
            samples=sampled.get(problem.id, ()),
        )
        for problem, _ in pairs
    ]
    return Measured(outcomes, len(too_long))


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


def _answers(
    params: Weights,
    policy: Policy,
    pairs: Sequence[tuple[Problem, Prompt]],
    scorer: Scorer,
    config: Config,
    *,
    step: int,
    policy_step: int,
    is_greedy: bool,
    keep: Path | None,
    report: Callable[[int], None],
) -> dict[str, tuple[Answer, ...]]:
    """Answers of all problems by id: those that are kept, and the others drawn now."""
    e, kept = config.evaluation, None
    answers: dict[str, tuple[Answer, ...]] = {}
    if keep is not None:
        kept = Generations(keep / ("greedy" if is_greedy else "sampled"), policy_step)
        answers = kept.read({problem.id: prompt.text for problem, prompt in pairs})
    report(len(answers))
    left = [pair for pair in pairs if pair[0].id not in answers]
    if not left:
        return answers
    engine = evaluation_engine(config, policy, is_greedy=is_greedy)
    problems, prompts = zip(*left, strict=True)
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
        policy_step=policy_step,
    )
    waiting: deque[tuple[int, Group, ScoreFuture]] = deque()

    def take(number: int) -> None:
        groups = scored_groups([waiting.popleft() for _ in range(number)])
        if kept is not None:
            kept.write(groups)
        answers.update({group.problem.id: answers_of(group) for group in groups})

    size = engine.settings.num_slots
    for index, group in drawn:
        future = scorer.submit(group, wants_rewards=False)
        waiting.append((index, group, future))
        report(len(answers) + len(waiting))
        if len(waiting) == 2 * size:  # the later half is scored while others are drawn
            take(size)
    take(len(waiting))
    _check_judged(answers, config.scorer.max_error_share)
    return answers


def _check_judged(answers: dict[str, tuple[Answer, ...]], limit: float) -> None:
    rows = [answer for own in answers.values() for answer in own]
    num_lost = sum(not answer.is_judged for answer in rows)
    _check_share(num_lost / max(len(rows), 1), len(rows), limit)


def check_errors(groups: Sequence[Group], limit: float) -> None:
    """Stops where too many rows could not be judged, or a reward failed on too many.

    Args:
      groups: After scoring.
      limit: Largest share of such rows.

    Raises:
      RuntimeError: The share is above the limit.
    """
    num_rows = sum(len(group.scores) for group in groups)
    _check_share(error_share(groups), num_rows, limit)
    for name, reasons in failures_of(groups).items():
        if len(reasons) > limit * num_rows:
            raise RuntimeError(
                f"rewards.{name} failed on {len(reasons)} of {num_rows} completions, "
                f"more than scorer.max_error_share {limit:g} allows: {reasons[0]}. "
                "Mend it, or raise the limit."
            )


def _check_share(share: float, num_rows: int, limit: float) -> None:
    if share > limit:
        raise RuntimeError(
            f"{share:.0%} of {num_rows} rows could not be scored, more than "
            f"scorer.max_error_share {limit:.0%}. Look at `jaxgrpo doctor`, and at "
            "abstain reasons in the rollouts table."
        )


Submitted = list[tuple[int, Group, ScoreFuture]]
"""Groups that are being scored, each with its problem's place."""


def submit_each(
    scorer: Scorer,
    drawn: Iterable[tuple[int, Group]],
    report: Callable[[int], None] = lambda done: None,
    *,
    step: int = 0,
) -> Submitted:
    """Hands groups to the scorer as they come, so that it works while others are drawn.

    Args:
      scorer: Judges.
      drawn: Groups with their problems' places, in the order in which they end.
      report: Called with the number of groups so far.
      step: Steps made before, for the user's reward functions.
    """
    submitted: Submitted = []
    for index, group in drawn:
        submitted.append((index, group, scorer.submit(group, step=step)))
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
