"""The rules, one file each, found by their names: ddp101_bare_cuda.py is DDP101."""
