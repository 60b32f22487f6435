"""What a step samples: the next problems, their prompts, and groups of completions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jaxgrpo.config import Config
from jaxgrpo.device.model.lora import policy_weights
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.engine import Engine
from jaxgrpo.evaluate import Submitted, check_errors, scored_groups, submit_each
from jaxgrpo.host.curriculum import Curriculum
from jaxgrpo.host.records import Group, Problem, Prompt
from jaxgrpo.host.regroup import Ask
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.host.temperature import TemperatureStages
from jaxgrpo.host.training_tail import TrainingTail
from jaxgrpo.methods import asked_problem, build_curriculum, build_temperature
from jaxgrpo.model_rewards import ModelRewards, model_rewards
from jaxgrpo.policy import Policy
from jaxgrpo.problems.stream import ProblemStream
from jaxgrpo.sampling import drawn_groups, training_engine
from jaxgrpo.step_metrics import Counters, group_tokens


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How a run draws its completions, and what it draws them for."""

    config: Config
    policy: Policy
    engine: Engine
    """Draws G completions of each prompt."""
    problems: ProblemStream
    num_available: int
    """Problems of the training split."""
    curriculum: Curriculum
    tail: TrainingTail
    """Problems still answered wrong, which come more often (`[distill]`)."""
    temperature: TemperatureStages
    scorer: Scorer
    rewards: ModelRewards
    """What scores get besides."""
    counters: Counters
    requested: list[Group] = field(default_factory=list)
    """What regroupers asked for in the present step, scored."""

    @cached_property
    def asked(self) -> Callable[[Problem], Problem]:
        """A problem as training asks it."""
        return asked_problem(self.config)

    def step_prompts(self, number: int) -> tuple[list[Problem], list[Prompt]]:
        """The problems of a step, those of the tail's share first, with their prompts.

        Args:
          number: Of problems.

        Raises:
          ValueError: As for `next_prompts`.
        """
        tail = self.tail.take(number)  # their prompts fitted when they were found
        problems, prompts = self.next_prompts(number - len(tail))
        of_tail = [self.policy.encode(self.asked(problem)) for problem in tail]
        return tail + problems, of_tail + prompts

    def more_problems(self, number: int) -> list[Problem]:
        """The next problems whose prompts fit, for a step that wants more of them.

        Args:
          number: Of problems.
        """
        problems, _ = self.next_prompts(number)
        self.counters.num_problems += len(problems)
        return problems

    def next_prompts(self, number: int) -> tuple[list[Problem], list[Prompt]]:
        """The next problems whose prompts fit, with their prompts.

        Args:
          number: Of problems.

        Raises:
          ValueError: If no prompt of the whole split fits.
        """
        problems: list[Problem] = []
        prompts: list[Prompt] = []
        num_drawn, has_fitting = 0, False
        limit = self.config.prompt.max_prompt_tokens
        while len(prompts) < number:
            if num_drawn > self.num_available and not has_fitting:
                raise ValueError(
                    f"none of the {self.num_available} training prompts fits in "
                    f"prompt.max_prompt_tokens {limit}"
                    f"{self.curriculum.restriction}. Raise it."
                )
            (problem,) = next(self.problems)
            num_drawn += 1
            if not self.curriculum.is_open(problem):
                continue
            prompt = self.policy.encode(self.asked(problem))
            if len(prompt.token_ids) > limit:
                self.counters.dropped_prompts += 1
                continue
            has_fitting = True
            if not self.curriculum.takes(problem):
                continue
            problems.append(problem)
            prompts.append(prompt)
        return problems, prompts

    def groups(
        self,
        state: TrainState,
        step: int,
        problems: Sequence[Problem],
        prompts: Sequence[Prompt],
        *,
        engine: Engine | None = None,
        draws: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Group]]:
        """A group of completions of each prompt, as they are completed.

        Args:
          state: Of the policy that draws.
          step: Steps made before.
          problems: One per prompt.
          prompts: What the completions continue.
          engine: Draws them; that of the run, if not given.
          draws: As for `drawn_groups`.
        """
        config = self.config
        return drawn_groups(
            engine or self.engine,
            policy_weights(state),
            self.policy,
            problems,
            prompts,
            seed=config.run.seed,
            purpose=PURPOSE_TRAIN,
            step=step,
            temperature=self.temperature.current,
            policy_step=int(state.step),
            budget=config.sampling.budget_at(step),
            draws=draws,
        )

    def scored(self, state: TrainState, step: int, submitted: Submitted) -> list[Group]:
        """Groups with all that they earn, once the scorer is done with them.

        Args:
          state: Of the policy that drew.
          step: Steps made before.
          submitted: What the scorer was given.
        """
        return self.rewards.completed(
            scored_groups(submitted),
            policy_weights(state),
            step=step,
            temperature=self.temperature.current,
        )

    def require_scored(self, groups: Sequence[Group]) -> None:
        """Stops a run whose scoring fails.

        Looked at are the step's groups and what was drawn on request until now: one
        row alone, as a hint is tried with, says nothing.

        Args:
          groups: First draws of the step.

        Raises:
          RuntimeError: Too many rows could not be scored.
        """
        limit = self.config.scorer.max_error_share
        check_errors([*groups, *self.requested], limit)

    def scored_on_request(
        self, state: TrainState, step: int, asks: Sequence[Ask], num_samples: int
    ) -> list[Group]:
        """Scored groups that a regrouper asks for, where their prompts fit.

        Args:
          state: Of the policy that draws.
          step: Steps made before.
          asks: Problem, prompt variant with its hint, and draw of each group.
          num_samples: Completions of each.
        """
        limit = self.config.prompt.max_prompt_tokens
        encoded = [
            self.policy.encode(self.asked(ask.problem), ask.variant, ask.hint)
            for ask in asks
        ]
        pairs = [
            (ask, prompt)
            for ask, prompt in zip(asks, encoded, strict=True)
            if len(prompt.token_ids) <= limit
        ]
        if not pairs:
            return []
        engine = self.engine
        if num_samples != engine.settings.group_size:
            engine = training_engine(self.config, self.policy, group_size=num_samples)
        drawn = self.groups(
            state,
            step,
            [ask.problem for ask, _ in pairs],
            [prompt for _, prompt in pairs],
            engine=engine,
            draws=[ask.draw for ask, _ in pairs],
        )
        submitted = submit_each(self.scorer, drawn, step=step)
        groups = self.scored(state, step, submitted)
        self.counters.num_tokens += group_tokens(groups)
        self.requested.extend(groups)
        return groups


def build_drawing(
    config: Config,
    policy: Policy,
    engine: Engine,
    problems: ProblemStream,
    source: Sequence[Problem],
    scorer: Scorer,
    counters: Counters,
) -> Drawing:
    """How a run draws, at its beginning.

    Args:
      config: Of a `grpo` run.
      policy: The model.
      engine: Draws G completions of each prompt.
      problems: The stream of `source`.
      source: All training problems.
      scorer: Judges.
      counters: Count what is drawn.
    """
    return Drawing(
        config=config,
        policy=policy,
        engine=engine,
        problems=problems,
        num_available=len(source),
        curriculum=build_curriculum(config),
        tail=TrainingTail(source, share=config.distill.tail_share),
        temperature=build_temperature(config),
        scorer=scorer,
        rewards=model_rewards(config, policy),
        counters=counters,
    )
