"""Every metric of a run and what it means: the names that may be written.

Training names are those of TRL, so that dashboards made for it work; stages and speed
have verl's. docs/metrics.md has a row for each.
"""

import re
from functools import cache

TIMING_PREFIXES = ("timing_s/", "timing_per_token_ms/", "perf/")
"""Names that depend on the machine; all others repeat bit for bit when a run does."""

GLOSSARY: dict[str, str] = {
    # Reward. Shares are of the groups or rows of the step.
    "reward": "Mean weighted sum of rewards over the rows that did not abstain.",
    "reward_std": "Standard deviation of the summed reward over the rows of the step.",
    "rewards/{name}/mean": "Mean of one reward over the rows that did not abstain.",
    "rewards/{name}/std": "Standard deviation of one reward over the same rows.",
    "rewards/{name}/abstained": "Share of rows in which this reward abstained.",
    "rewards/{name}/failed": "Share of rows on which this reward failed.",
    "rewards/{name}/weight": "Its factor in the step, where it changes in the run.",
    "rewards/{name}/{column}": "Mean of another number that this reward tells of rows "
    "(docs/rewards.md).",
    "frac_reward_zero_std": "Share of groups with all rewards equal (dead groups).",
    "frac_reward_many_values": "Share of groups with unequal rewards that have "
    "three different ones or more.",
    "frac_update_zero_std": "The same share of the groups that reach the update; split "
    "replay makes stored samples a group of their own.",
    "frac_reward_all_zero": "Share of groups in which every judged row is wrong.",
    "frac_reward_all_one": "Share of groups in which every judged row is correct.",
    "frac_reward_mixed": "Share of groups with both correct and wrong rows.",
    "exact_match": "Share of sampled rows judged correct.",
    "error_class/{name}": "Share of rows that the judge put in this class.",
    "exception/{name}": "Share of rows whose program raised this, of "
    "`error_class/exception`; exceptions of its own are `other`.",
    "verdict/{status}": "Rows of the step with this verdict.",
    "errored_rollouts": "Rows that could not be scored (infrastructure errors).",
    "abstained_rollouts": "Rows without a summed reward, errored ones included.",
    "dropped_groups": "Groups with completions that nothing was learnt from.",
    # Methods (docs/methods.md).
    "diversity/distinct_{n}": "Share of different n-grams among a group's; mean.",
    "diversity/pairwise_distance": "Mean of 1 - Jaccard of 4-grams over pairs of a "
    "group's completions.",
    "sampling/max_new_tokens": "Token budget of a completion in the step.",
    "curriculum/open_levels": "Levels of the curriculum that problems are taken of.",
    "curriculum/success/{level}": "Moving share of correct completions of a level.",
    "sampling/temperature": "Softmax temperature of the step.",
    "sampling/temperature_stage": "Stage of the temperature, from 0.",
    "dynamic_sampling/num_gen_batches": "Batches drawn for the step.",
    "dynamic_sampling/drawn_groups": "Groups drawn for the step.",
    "dynamic_sampling/surplus_groups": "Live groups beyond the batch, dropped.",
    "dynamic_sampling/missing_groups": "Groups short of a full batch of live ones.",
    "dynamic_sampling/drop_{cause}": "Dead groups dropped, by cause.",
    "scaffold/{count}": "Groups all wrong, asked again under hints, due but without a "
    "hint, revived; the last by the hint's tier too.",
    "scaffold/dropped_prompts": "Prompts with a hint that exceed max_prompt_tokens.",
    "scaffold/mean_level": "Mean number of the weakest hint that helped, among all "
    "hints of its problem, from 1.",
    "replay/replaced_groups": "Dead groups that stored ones took the place of.",
    "replay/stored_groups": "Groups in the buffer after the step.",
    "replay/dropped_stale": "Stored groups dropped because of their age.",
    "replay/replayed_samples": "Stored completions that the step learned from.",
    "replay/stored_samples": "Completions in the store after the step.",
    "replay/stored_mb": "Size of the stored completions in a checkpoint.",
    "replay/stored_problems": "Problems that have stored completions.",
    "replay/mean_age": "Mean updates that replayed completions are behind the policy.",
    "replay/online_reward": "Mean summed reward of the step's own completions.",
    "truncation_mask/{share}": "Share of completions truncated, repeating, or masked.",
    "distill/problems": "Training problems that the phase looked at.",
    "distill/tail_problems": "Those whose greedy answer was wrong before it.",
    "distill/hit_problems": "Those of them with a right sample that was imitated.",
    "distill/hits": "Right samples that were imitated.",
    "distill/right_share/{temperature}": "Share of the samples at it that are right.",
    "distill/updates": "Supervised updates of the phase.",
    "distill/updates_skipped": "Those left out because something was not finite.",
    "distill/loss_first": "Mean loss of the first pass over the hits, nats per token.",
    "distill/loss_last": "The same of the last pass.",
    "distill/solved_problems": "Problems answered wrong before the phase, right after.",
    "distill/new_tail_problems": "Problems looked at that are answered wrong after it.",
    "distill/{when}/exact_match": "Share of the problems looked at whose greedy answer "
    "is right, before or after the phase.",
    "distill/{when}/pass@{k}": "As eval/pass@{k}, on the problems looked at.",
    "distill/{when}/top1_gap": "pass@k - exact match on them, at the largest k.",
    "distill/from_tail": "Problems of the step that are taken from the new tail.",
    "distill/tail_exact_match": "Share of their samples that are right.",
    # Credit by execution.
    "credit/mode/{mode}": "Share of blamed completions in this mode: syntax, "
    "constraint, correct or logic.",
    "credit/fallback/{cause}": "Share of them without a span, or with that of the "
    "result only.",
    "credit/without_blame": "Share of completions without a blame: no program, or not "
    "judged.",
    "credit/boundaries": "Mean statements in the traces of the completions that were "
    "traced.",
    "credit/steps": "Mean number of steps that a completion is to predict.",
    "credit/step_accuracy": "Share of these steps that are right; the answer is one.",
    "credit/steps_left_out": "Share of them whose credit is left out.",
    "credit/steps_missing": "Share of completions that lack a step or have one out of "
    "its order.",
    "credit/without_steps": "Share of completions whose problem has no steps, or too "
    "many, or that were not judged.",
    "credit/intra_share": "Share of the intra-trajectory part in the size of the "
    "steps' advantages.",
    "credit/focused_share": "Share of rows whose advantage falls on a span alone.",
    "credit/spared_share": "Share of rows with a span and a positive advantage, which "
    "is uniform.",
    # Advantage among passing rows, and experimental credit.
    "redistribution/quality_mean": "Mean quality of the graded passing completions.",
    "redistribution/graded_groups": "Groups with a failing and two passing "
    "completions that are graded.",
    "redistribution/ungraded": "Such groups without grades, because a grader failed.",
    "redistribution/moved_advantage": "Mean size of what grades moved a row's "
    "advantage by.",
    "experimental/oar/uniform_share": "Share of rows without a token to weigh by "
    "influence, whose credit is uniform.",
    "experimental/oar/importance_mean": "Mean influence on the answer of the tokens "
    "weighed by it.",
    "experimental/oar/credit_max": "Largest credit of a token.",
    "experimental/sc_grpo/{route}": "Share of groups mixed, explored, plain, or plain "
    "because a prompt was too_long.",
    "experimental/sc_grpo/divergence_mean": "Mean divergence of tokens in mixed "
    "groups from the policy that is shown a right completion.",
    "experimental/sc_grpo/scale": "Divergence that is weighed by a half.",
    "experimental/sc_grpo/weight_mean": "Mean weight of tokens in mixed groups.",
    "experimental/s_trace/entropy_threshold": "Entropy from which on a token is "
    "traced.",
    "experimental/s_trace/traced_share": "Share of tokens that are traced.",
    "dropped_prompts": "Prompts left out so far because they exceed max_prompt_tokens.",
    "advantages/mean": "Mean advantage of the rows.",
    "advantages/abs_mean": "Mean size of the advantages.",
    "advantages/min": "Smallest advantage.",
    "advantages/max": "Largest advantage.",
    # Prompts.
    "prompt_length/mean": "Mean prompt length in tokens.",
    "prompt_length/min": "Shortest prompt in tokens.",
    "prompt_length/max": "Longest prompt in tokens.",
    # Completions.
    "completions/mean_length": "Mean completion length in tokens.",
    "completions/min_length": "Shortest completion in tokens.",
    "completions/max_length": "Longest completion in tokens.",
    "completions/mean_terminated_length": "Mean tokens of those not cut.",
    "completions/min_terminated_length": "Shortest in tokens of the same.",
    "completions/max_terminated_length": "Longest in tokens of the same.",
    "completions/mean_length_solved": "Mean tokens of those judged correct.",
    "completions/mean_length_unsolved": "Mean tokens of those judged wrong.",
    "completions/clipped_ratio": "Share of completions cut at max_new_tokens.",
    # Loss and update.
    "loss": "Training loss of the step.",
    "policy_loss": "Loss without divergence and entropy terms.",
    "policy_loss/{rows}": "Part of `policy_loss` from new (`on`), stored (`off`) rows.",
    "kl": "Mean divergence from the reference policy, nats per token.",
    "ppo_kl": "Mean log-prob before the step (of stored rows: as sampled) minus now, "
    "nats per token.",
    "entropy": "Mean entropy of the next-token distribution, nats.",
    "ratio/mean": "Mean ratio of the policy's probability to that which sampled.",
    "ratio/min": "Smallest such ratio.",
    "ratio/max": "Largest such ratio.",
    "clip_ratio/low_mean": "Share of tokens below the lower clip with A < 0.",
    "clip_ratio/low_min": "Smallest such share of one completion.",
    "clip_ratio/high_mean": "Share of tokens above the upper clip with A > 0.",
    "clip_ratio/high_max": "Largest such share of one completion.",
    "clip_ratio/dual_mean": "Share of tokens at the dual clip's bound (A < 0).",
    "clip_ratio/region_mean": "Share of tokens clipped on either side.",
    "clip_ratio/{rows}_low": "`clip_ratio/low_mean` of new (`on`), "
    "stored (`off`) rows.",
    "clip_ratio/{rows}_high": "`clip_ratio/high_mean` of new (`on`), "
    "stored (`off`) rows.",
    "clip_ratio/{rows}_region": "`clip_ratio/region_mean` of new (`on`), "
    "stored (`off`) rows.",
    "cispo_clip_ratio": "Share of tokens whose weight CISPO bounds.",
    "off_policy_masked_fraction": "Share of tokens left out as too far off-policy.",
    "grad_norm": "Global norm of the gradient before clipping.",
    "learning_rate": "Learning rate of AdamW in this step.",
    "update_skipped": "Updates of the step left out because loss or gradient was not "
    "finite.",
    "update_empty": "Updates of the step left out because no completion counted.",
    # Reward models (`jaxgrpo train-reward`).
    "accuracy": "Share of the step's pairs whose preferred answer has the higher "
    "score.",
    "margin": "Mean score of the preferred minus that of the rejected answers.",
    "eval/loss": "Loss on held-out pairs, nats.",
    "eval/accuracy": "Share of held-out pairs in the right order.",
    "eval/auc": "Chance that a right answer scores above a wrong one of any held-out "
    "problem, among those that run.",
    "eval/auc_within": "The same within a problem; mean over held-out problems.",
    # Log-probs of the sampler against those of the trainer.
    "sampling/sampling_logp_difference/mean": "Mean |sampler - trainer|, nats.",
    "sampling/sampling_logp_difference/max": "Largest |sampler - trainer|, nats.",
    "sampling/importance_sampling_ratio/mean": "Mean weight of trainer over sampler, "
    "as applied.",
    "sampling/importance_sampling_ratio/min": "Smallest weight, as applied.",
    "sampling/importance_sampling_ratio/max": "Largest weight, as applied.",
    "sampling/importance_sampling_ratio/bounded_fraction": "Share of tokens whose "
    "weight the bounds changed.",
    "sampling/importance_sampling_ratio_raw/mean": "Mean weight before any bounds.",
    "sampling/importance_sampling_ratio_raw/min": "Smallest weight before any bounds.",
    "sampling/importance_sampling_ratio_raw/max": "Largest weight before any bounds.",
    "sampling/importance_sampling_ratio_raw/mean_square": "Mean square of the same; "
    "mean^2 over it is the effective share of the sample.",
    "token_mult_prob_error": "Mean of exp |sampler - trainer|; 1 is perfect.",
    # Progress.
    "epoch": "Problems drawn, too long ones included, over those there are; a "
    "curriculum leaves some out and makes more passes. Of pairs in `train-reward`.",
    "num_tokens": "Prompt and completion tokens sampled since the run began; in "
    "supervised mode, trained on since the stage began.",
    "num_problems": "Problems drawn since the run began.",
    "stage": "Index of the supervised stage, from 0.",
    # Held-out problems.
    "eval/num_problems": "Problems evaluated.",
    "eval/dropped_prompts": "Problems left out because of max_prompt_tokens.",
    "eval/exact_match": "Share of problems whose greedy completion is correct.",
    "eval/pass@{k}": "Unbiased estimate of at least one of k samples being correct.",
    "eval/majority@{k}": "Chance that the most frequent answer of k is correct.",
    "eval/frac_reward_all_zero": "Share of problems with every judged sample wrong.",
    "eval/frac_reward_mixed": "Share of problems with correct and wrong samples.",
    "eval/frac_reward_all_one": "Share of problems with every judged sample correct.",
    "eval/error_class/{name}": "Share of greedy completions in this class.",
    "eval/tests_passed": "Mean share of a program's tests that the greedy one passed.",
    "eval/errored": "Share of greedy completions that could not be judged.",
    "eval/mean_length": "Mean greedy completion length in tokens.",
    "eval/clipped_ratio": "Share of greedy completions cut at max_new_tokens.",
    "eval_se/{metric}": "Standard error over problems of that eval/ metric.",
    # The tail: problems whose greedy answer was wrong before training.
    "tail/num_problems": "Problems of the tail.",
    "tail/exact_match": "Share of them whose greedy completion is correct.",
    "tail/pass@{k}": "As eval/pass@{k}, on the tail.",
    "tail/majority@{k}": "As eval/majority@{k}, on the tail.",
    "tail/top1_gap": "tail/pass@k - tail/exact_match, at the largest k.",
    "tail/frac_reward_all_zero": "Share of them with every judged sample wrong.",
    "tail/frac_reward_mixed": "Share of them with correct and wrong samples.",
    "tail/frac_reward_all_one": "Share of them with every judged sample correct.",
    "tail/error_class/{name}": "Share of them with a greedy completion in this class.",
    # The collapse guard.
    "guard/length_ratio": "Mean completion length now over that of the first steps.",
    "guard/entropy_ratio": "Mean entropy now over that of the first steps.",
    # What reward functions of the user's own log.
    "user/{metric}": "Mean of what log_metric was given under this name.",
    # The machine. Never equal in two runs.
    "timing_s/{stage}": "Wall-clock seconds of this stage in the step.",
    "timing_s/blame": "Seconds that finding blame took, summed over all workers.",
    "timing_s/reward/{name}": "Seconds that one reward took, summed over all workers.",
    "timing_per_token_ms/{stage}": "Milliseconds of a stage per completion token.",
    "perf/time_per_step": "Wall-clock seconds of the step, evaluations left out.",
    "perf/total_num_tokens": "Prompt and completion tokens sampled in the step.",
    "perf/throughput": "Those per second of the step and per device.",
    "perf/tokens_per_s": "Completion tokens of the step per second of the step.",
    "perf/sampled_tokens_per_s": "Completion tokens per second of sampling.",
    "perf/trained_tokens_per_s": "Prompt and completion tokens per second of update.",
    "perf/cache_hit_rate": "Share of rows so far whose verdict was known already.",
    "perf/scorer_restarts": "Scoring workers replaced so far.",
    "perf/sandbox_level/{level}": "1 for the level that confines programs, A to D.",
    "perf/compilations": "Programs that jax compiled, or loaded compiled, in the step.",
    "perf/compile_s": "Wall-clock seconds of that.",
    "perf/max_memory_allocated_gb": "Peak GiB in use on the fullest device.",
    "perf/cpu_memory_used_gb": "Peak resident GiB of the training process.",
}
"""Every metric and what it means. `{name}` stands for a part without a slash, except
that `{metric}` may have any."""


def definition(name: str) -> str | None:
    """Returns what a metric means, or None for a name that is not in the glossary.

    Example:
      >>> definition("rewards/exact/mean")
      'Mean of one reward over the rows that did not abstain.'
    """
    if name in GLOSSARY:
        return GLOSSARY[name]
    for pattern, meaning in _patterns():
        if pattern.fullmatch(name):
            return meaning
    return None


def is_timing(name: str) -> bool:
    """Returns whether a metric depends on the machine and not only on the run.

    Example:
      >>> is_timing("timing_s/gen"), is_timing("reward")
      (True, False)
    """
    return name.startswith(TIMING_PREFIXES)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(_regular_expression(name)), meaning)
        for name, meaning in GLOSSARY.items()
        if "{" in name
    ]


def _regular_expression(name: str) -> str:
    fixed_parts = re.split(r"\{\w+\}", name)
    part = ".+" if name.endswith("{metric}") else "[^/]+"
    return part.join(re.escape(fixed) for fixed in fixed_parts)
