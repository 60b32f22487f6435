"""What runs on the accelerator: pure functions of arrays."""
