"""The decoder: sizes, attention, adapters, forward passes."""
