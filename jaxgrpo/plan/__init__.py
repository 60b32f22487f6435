"""What a run needs on given devices: memory, work and time, before it is started."""
