"""Log-prob, entropy and self-certainty of one token in float64, from whole logits."""

import math

import numpy as np


def token_statistics(
    hidden: np.ndarray,
    head: np.ndarray,
    target: int,
    temperature: float,
    allowed: set[int],
) -> tuple[float, float, float]:
    logits = {v: float(hidden @ head[v]) / temperature for v in sorted(allowed)}
    highest = max(logits.values())
    lse = highest + math.log(sum(math.exp(z - highest) for z in logits.values()))
    entropy = -sum(math.exp(z - lse) * (z - lse) for z in logits.values())
    certainty = lse - sum(logits.values()) / len(logits)
    logprob = logits[target] - lse if target in logits else -math.inf
    return logprob, entropy, certainty
