"""The user's own reward functions: each in a process of its own, with a time limit."""
