"""Tiny arguments of XLNet: each of its ways that matters, once."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2, "pad": 0}

TINY = [SMALL, SMALL | {"causal": True, "farthest": 3, "tied": "no"}, SMALL | {"head": "tokens", "classes": 3}]
