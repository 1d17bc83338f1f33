"""Tiny arguments of Mixtral: with and without a window."""

SMALL = {"vocab_size": 13, "num_layers": 2, "d_model": 8, "d_ff": 6, "num_heads": 2, "experts": 3}

TINY = [SMALL, SMALL | {"window": 3, "active": 1, "tied": True}]
