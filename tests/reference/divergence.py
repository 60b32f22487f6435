"""KL between two next-token distributions in float64, from whole logits."""

import math

import numpy as np


def token_divergence(
    first: np.ndarray,
    second: np.ndarray,
    head: np.ndarray,
    temperature: float,
    num_tokens: int,
) -> float:
    def log_probs(hidden: np.ndarray) -> np.ndarray:
        logits = head[:num_tokens].astype(np.float64) @ hidden.astype(np.float64)
        logits /= temperature
        highest = logits.max()
        return logits - highest - math.log(np.exp(logits - highest).sum())

    log_p, log_q = log_probs(first), log_probs(second)
    return float((np.exp(log_p) * (log_p - log_q)).sum())
