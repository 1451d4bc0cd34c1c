"""Jobs that already run on this machine: which of their ranks is on which GPU."""
