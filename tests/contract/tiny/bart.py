"""Tiny arguments of BART and mBART."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2, "max_positions": 45}
SMALL |= {"pad": 0}

TINY = [SMALL, SMALL | {"placement": "pre", "scaled": True, "activation": "relu", "head_bias": True, "decoder_layers": 1}]
