"""The loss and its gradient in float64 with explicit loops, straight from the formulas.

`options` holds the fields of an objective by name. Everything is nested loops over rows
and tokens; gradients are written out by hand, not differentiated.
"""

import math
from typing import Any

import numpy as np


def row_ratios(
    level: str,
    log_ratios: list[float],
    options: dict[str, Any],
    traced: list[bool],
) -> tuple[list[float], list[list[float]]]:
    """Ratio of each token of one row, and its derivative by each log-prob."""
    length = len(log_ratios)
    slopes = [[0.0] * length for _ in range(length)]
    if level in ("token", "sequence_token"):
        row = math.exp(sum(log_ratios) / length)
        ratios = [
            math.exp(log_ratios[t]) if level == "token" else row for t in range(length)
        ]
        for t in range(length):
            slopes[t][t] = ratios[t]
    elif level == "trace":
        ratios = []
        for t in range(length):
            powers = [
                options["trace_decay"] ** (t - k) * traced[k] for k in range(t + 1)
            ]
            count = sum(powers)
            total = sum(powers[k] * log_ratios[k] for k in range(t + 1))
            ratios.append(math.exp(total / count) if count else 1.0)
            for k in range(t + 1):
                slopes[t][k] = ratios[t] * powers[k] / count if count else 0.0
    else:
        share = 1 / length if level == "sequence" else 1.0
        ratios = [math.exp(sum(log_ratios) * share)] * length
        slopes = [[ratios[t] * share] * length for t in range(length)]
    return ratios, slopes


def surrogate(
    ratio: float, advantage: float, logprob: float, options: dict[str, Any]
) -> tuple[float, float, float]:
    """Loss of one token, its derivative by the ratio, and by the log-prob itself."""
    kind = options["surrogate"]
    low, high = 1 - options["clip_low"], 1 + options["clip_high"]
    if kind in ("cispo", "cispo_band"):
        weight = min(ratio, options["ratio_cap"])
        if kind == "cispo_band":
            weight = min(max(ratio, low), high)
        return -weight * advantage * logprob, 0.0, -weight * advantage
    if kind == "sapo":
        name = "temperature_positive" if advantage > 0 else "temperature_negative"
        tau = options[name]
        gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
        return -4 / tau * gate * advantage, -4 * gate * (1 - gate) * advantage, 0.0
    free, clipped = ratio, min(max(ratio, low), high)
    if options["delta"] is not None:
        free = min(ratio, options["delta"])
    value = -min(free * advantage, clipped * advantage)
    slope = 0.0
    if low < ratio < high or (free * advantage < clipped * advantage and free == ratio):
        slope = -advantage
    if options["dual_clip"] is not None and advantage < 0:
        bound = -options["dual_clip"] * advantage
        if value > bound:
            value, slope = bound, 0.0
    return value, slope, 0.0


def divergence(
    kind: str, logprob: float, ref: float, log_ratio: float
) -> tuple[float, float]:
    """Divergence at one token and its derivative by the log-prob."""
    r = ref - logprob
    k3 = math.exp(r) - r - 1
    if kind == "k1":
        return -r, 1.0
    if kind == "k2":
        return r * r / 2, -r
    if kind == "k3":
        return k3, 1 - math.exp(r)
    rho = math.exp(log_ratio)
    return rho * k3, rho * k3 + rho * (1 - math.exp(r))


def sampler_weight(gaps: list[float], t: int, options: dict[str, Any]) -> float:
    if options["correction"] == "none":
        return 1.0
    level, mode = options["correction"].split("_")
    gap = {
        "token": gaps[t],
        "sequence": sum(gaps),
        "geometric": sum(gaps) / len(gaps),
    }[level]
    weight = math.exp(gap)
    lower, upper = options["correction_min"], options["correction_max"]
    if mode == "truncate":
        return min(max(weight, lower), upper)
    return weight if lower <= weight <= upper else 0.0


def denominator(lengths: list[int], options: dict[str, Any]) -> float:
    if options["aggregation"] == "token_mean":
        return float(sum(lengths))
    rows = sum(length > 0 for length in lengths)
    if options["aggregation"] == "constant":
        return float(rows * options["length_cap"])
    return float(rows)


def grpo_loss(
    arrays: dict[str, np.ndarray],
    lengths: list[int],
    options: dict[str, Any],
    entropy_threshold: float | None = None,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, its gradient by the log-probs and its gradient by the entropies."""
    logprobs = arrays["logprobs"]
    gradient, entropy_gradient = np.zeros_like(logprobs), np.zeros_like(logprobs)
    divisor = max(denominator(lengths, options), 1.0)
    loss = 0.0
    for i, length in enumerate(lengths):
        if length == 0:
            continue
        row = {name: values[i, :length].tolist() for name, values in arrays.items()}
        share = 1 / length if options["aggregation"] == "sequence_mean" else 1.0
        share /= divisor
        values, slopes, entropy_slopes = row_terms(row, options, entropy_threshold)
        loss += share * sum(values)
        gradient[i, :length] = [share * slope for slope in slopes]
        entropy_gradient[i, :length] = [share * slope for slope in entropy_slopes]
    return loss, gradient, entropy_gradient


def row_terms(
    row: dict[str, list[float]], options: dict[str, Any], threshold: float | None
) -> tuple[list[float], list[float], list[float]]:
    """Losses of one row's tokens, and the derivative of their sum by each input."""
    length = len(row["logprobs"])
    tokens = range(length)
    log_ratios = [row["logprobs"][t] - row["old"][t] for t in tokens]
    is_trace = options["ratio_level"] == "trace"
    traced = [is_trace and row["entropies"][t] >= (threshold or 0.0) for t in tokens]
    ratios, ratio_slopes = row_ratios(
        options["ratio_level"], log_ratios, options, traced
    )
    gaps = [row["old"][t] - row["sampler"][t] for t in tokens]
    drift = sum(row["sampler"][t] - row["logprobs"][t] for t in tokens) / length
    values, slopes = [0.0] * length, [0.0] * length
    entropy_slopes = [0.0] * length
    for t in tokens:
        advantage = row["advantages"][t]
        weight = sampler_weight(gaps, t, options)
        limit = options["off_policy_threshold"]
        if limit is not None and advantage < 0 and drift > limit:
            weight = 0.0
        if threshold is not None and not is_trace and row["entropies"][t] < threshold:
            weight = 0.0
        value, by_ratio, by_logprob = surrogate(
            ratios[t], advantage, row["logprobs"][t], options
        )
        values[t] += weight * value
        slopes[t] += weight * by_logprob
        for k in tokens:
            slopes[k] += weight * by_ratio * ratio_slopes[t][k]
        if options["kl_coef"]:
            kl, kl_slope = divergence(
                options["divergence"], row["logprobs"][t], row["ref"][t], log_ratios[t]
            )
            values[t] += options["kl_coef"] * kl
            slopes[t] += options["kl_coef"] * kl_slope
        values[t] -= options["entropy_coef"] * row["entropies"][t]
        entropy_slopes[t] -= options["entropy_coef"]
    return values, slopes, entropy_slopes
