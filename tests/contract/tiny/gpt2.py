"""Tiny arguments of GPT-2: tied and not."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "num_layers": 2, "d_model": 8, "num_heads": 2, "max_positions": 64}

TINY = [SMALL, SMALL | {"tied": False, "d_ff": 12, "activation": "relu"}]
