"""From judged answers that were kept to pairs that a reward model learns from."""
