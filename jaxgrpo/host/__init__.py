"""What runs on the host's CPUs: standard library and NumPy, never jax."""
