"""Credit and per-step advantages in float64 with explicit loops."""

import math

import numpy as np

from tests.reference.advantages import group_advantages


def span_credit(lengths, num_positions, starts, ends, has_span, advantages):
    credit = np.zeros((len(lengths), num_positions))
    for i, length in enumerate(lengths):
        inside = [t for t in range(length) if starts[i] <= t < ends[i]]
        if not inside or not has_span[i] or advantages[i] >= 0:
            inside = list(range(length))
        for t in inside:
            credit[i, t] = length / len(inside)
    return credit


def intra_advantages(step_rewards):
    result = np.zeros(step_rewards.shape)
    for i, row in enumerate(step_rewards):
        steps = [a for a in range(len(row)) if not math.isnan(row[a])]
        for a in steps:
            later = [row[j] for j in steps if j > a]
            mean = sum(later) / len(later) if later else 0.0
            result[i, a] = row[a] * (1 + mean)
    return result


def bilevel_advantages(step_rewards, group_ids, intra_coef):
    result = intra_coef * intra_advantages(step_rewards)
    for a in range(step_rewards.shape[1]):
        result[:, a] += group_advantages(step_rewards[:, a : a + 1], group_ids)
    return result


def advantages_at_steps(advantages, step_ends, lengths, num_positions):
    result = np.zeros((len(lengths), num_positions))
    for i, length in enumerate(lengths):
        for t in range(length):
            steps = [a for a in range(len(step_ends[i])) if t < step_ends[i][a]]
            result[i, t] = advantages[i][steps[0]] if steps else 0.0
    return result


def importance_credit(importances, lengths, threshold, boost, floor):
    credit = np.zeros(importances.shape)
    for i, length in enumerate(lengths):
        row = importances[i, :length]
        if length == 0:
            continue
        spread = max(row) - min(row)
        weights = []
        for value in row:
            n = (value - min(row)) / spread if spread else threshold
            if n < threshold:
                weights.append(max(n / threshold, floor))
            else:
                weights.append(1 + boost * (n - threshold) / (1 - threshold))
        for t in range(length):
            credit[i, t] = weights[t] * length / sum(weights)
    return credit
