"""Virtual GPUs: N CUDA devices on a machine that has none."""
