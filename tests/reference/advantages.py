"""Advantages in float64 with explicit loops."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def std(values: Sequence[float], ddof: int) -> float:
    mean = sum(values) / len(values)
    total = sum((value - mean) ** 2 for value in values)
    return math.sqrt(total / max(len(values) - ddof, 1))


def group_advantages(
    rewards: np.ndarray,
    group_ids: Any,
    *,
    weights: Any = None,
    scale: str = "group",
    baseline: str = "mean",
    combine: str = "sum_then_normalize",
    ddof: int = 1,
    epsilon: float = 1e-4,
    is_real: Any = None,
) -> np.ndarray:
    num_rows, num_rewards = rewards.shape
    factors = [1.0] * num_rewards if weights is None else list(weights)
    counts = [True] * num_rows if is_real is None else list(is_real)
    if combine == "normalize_then_sum":
        return _gdpo(rewards, group_ids, factors, counts, ddof, epsilon)
    totals = [math.nan] * num_rows
    for i in range(num_rows):
        if counts[i]:
            used = [n for n in range(num_rewards) if factors[n] != 0]
            totals[i] = sum(factors[n] * float(rewards[i, n]) for n in used)
    return _normalised(totals, group_ids, scale, baseline, ddof, epsilon)


def _normalised(values, group_ids, scale, baseline, ddof, epsilon) -> np.ndarray:
    """NaN marks values that do not count."""
    result = np.zeros(len(values))
    everyone = [value for value in values if not math.isnan(value)]
    for i, value in enumerate(values):
        if math.isnan(value):
            continue
        rows = [j for j in range(len(values)) if group_ids[j] == group_ids[i]]
        rows = [j for j in rows if not math.isnan(values[j])]
        group = [values[j] for j in rows]
        if max(group) == min(group):
            continue
        if baseline == "leave_one_out":
            others = [values[j] for j in rows if j != i]
            centred = value - sum(others) / len(others)
        else:
            centred = value - sum(group) / len(group)
        if scale == "group":
            centred /= std(group, ddof) + epsilon
        elif scale == "batch":
            centred /= std(everyone, ddof) + epsilon
        result[i] = centred
    return result


def _gdpo(rewards, group_ids, weights, is_real, ddof, epsilon) -> np.ndarray:
    num_rows, num_rewards = rewards.shape
    sums = np.zeros(num_rows)
    is_scored = [False] * num_rows
    is_dead = [True] * num_rows
    for n in range(num_rewards):
        if weights[n] == 0:
            continue
        column = [
            float(rewards[i, n]) if is_real[i] else math.nan for i in range(num_rows)
        ]
        parts = _normalised(column, group_ids, "group", "mean", ddof, epsilon)
        for i in range(num_rows):
            sums[i] += weights[n] * parts[i]
            is_scored[i] |= not math.isnan(column[i])
            group = [
                column[j]
                for j in range(num_rows)
                if group_ids[j] == group_ids[i] and not math.isnan(column[j])
            ]
            is_dead[i] &= len(set(group)) < 2
    scored = [sums[i] for i in range(num_rows) if is_scored[i]]
    result = np.zeros(num_rows)
    for i in range(num_rows):
        if is_scored[i] and not is_dead[i]:
            mean = sum(scored) / len(scored)
            result[i] = (sums[i] - mean) / (std(scored, ddof) + epsilon)
    return result


def redistributed_advantages(
    advantages, qualities, is_passing, group_ids, cap, is_real
) -> np.ndarray:
    result = np.array(advantages, dtype=float)
    for group in set(group_ids):
        rows = [i for i in range(len(advantages)) if group_ids[i] == group]
        rows = [i for i in rows if is_real[i]]
        if any(is_passing[i] and math.isnan(qualities[i]) for i in rows):
            continue
        shared = [i for i in rows if is_passing[i] and advantages[i] > 0]
        if not shared:
            continue
        mass = sum(advantages[i] for i in shared)
        left = sum(qualities[i] * advantages[i] for i in shared)
        factor = min(cap, mass / left)
        for i in shared:
            result[i] = factor * qualities[i] * advantages[i]
        mean = sum(result[i] for i in rows) / len(rows)
        for i in rows:
            result[i] -= mean
    for i in range(len(advantages)):
        if not is_real[i]:
            result[i] = 0.0
    return result


def reweighted_pass_rates(is_passed, has_test, group_ids) -> np.ndarray:
    num_rows, num_tests = is_passed.shape
    result = np.full(num_rows, math.nan)
    for i in range(num_rows):
        tests = [j for j in range(num_tests) if has_test[i, j]]
        rows = [k for k in range(num_rows) if group_ids[k] == group_ids[i]]
        weights = []
        for j in tests:
            passes = sum(bool(is_passed[k, j]) for k in rows if has_test[k, j])
            weights.append(1 - passes / sum(bool(has_test[k, j]) for k in rows))
        if tests and sum(weights) == 0:
            weights = [1.0] * len(tests)
        if tests:
            earned = sum(
                w for w, j in zip(weights, tests, strict=True) if is_passed[i, j]
            )
            result[i] = earned / sum(weights)
    return result
