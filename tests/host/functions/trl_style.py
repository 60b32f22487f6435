"""Reward functions as TRL's documentation has its readers write them."""

import asyncio
import functools
import re


def longest(completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


def thought_before_answer(completions, **kwargs):
    """For conversations: the text is the first message's content."""
    texts = [completion[0]["content"] for completion in completions]
    return [
        1.0 if re.match(r"^<think>.*?</think><answer>.*?</answer>$", text) else 0.0
        for text in texts
    ]


def boxed(completions, ground_truth, **kwargs):
    """Compares what stands in the box with the column `ground_truth`."""
    found = [re.search(r"\\boxed\{(.*?)\}", text) for text in completions]
    contents = [match.group(1) if match else "" for match in found]
    return [
        1.0 if content == truth else 0.0
        for content, truth in zip(contents, ground_truth, strict=True)
    ]


def math_only(prompts, completions, task, **kwargs):
    """Abstains where the task is another."""
    return [
        (1.0 if "42" in completion else -1.0) if name == "math" else None
        for completion, name in zip(completions, task, strict=True)
    ]


def code_only(prompts, completions, task, **kwargs):
    return [
        (1.0 if "print" in completion else -1.0) if name == "code" else None
        for completion, name in zip(completions, task, strict=True)
    ]


async def slow_length(prompts, completions, **kwargs):
    await asyncio.sleep(0.01)
    return [len(completion) / 10 for completion in completions]


def logging(completions, ground_truth, log_extra=None, log_metric=None, **kwargs):
    lengths = [len(completion) for completion in completions]
    if log_extra:
        log_extra("length", lengths)
        log_extra("truth", list(ground_truth))
    if log_metric:
        log_metric("mean_length", sum(lengths) / len(lengths))
    return [float(length % 2) for length in lengths]


def only_completions(completions):
    return [float("a" in completion) for completion in completions]


def staged(completions, trainer_state, **kwargs):
    done = trainer_state.global_step / trainer_state.max_steps
    return [done] * len(completions)


def scaled(completions, *, factor, **kwargs):
    return [factor * len(completion) for completion in completions]


half_length = functools.partial(scaled, factor=0.5)


class Contains:
    def __init__(self, text):
        self.text = text

    def __call__(self, completions, **kwargs):
        return [float(self.text in completion) for completion in completions]


class Slowly(Contains):
    async def __call__(self, completions, **kwargs):
        await asyncio.sleep(0)
        return super().__call__(completions)


contains_a = Contains("a")
slowly_contains_a = Slowly("a")
