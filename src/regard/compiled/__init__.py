"""Translation in compiled code, by numba, on a CPU: a fast twin of model and search together."""
