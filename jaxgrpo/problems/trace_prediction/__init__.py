"""What does a program do on its way? Questions about small generated functions."""
