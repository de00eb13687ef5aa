"""GPUs simulated on the CPU: real numbers, and every operation checks the rules of devices, streams and memory.

Tests that require a GPU run on them with `make test-simulated`. What a simulated GPU does not have is speed,
its own rounding, and the attention kernels of CUDA, for which the CPU computes the same.
"""
