"""What an evaluation makes of scored completions: NumPy and SciPy, no model."""
