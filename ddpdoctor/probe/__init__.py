"""Runs a program under torchrun and finds which rank sits on which GPU."""
