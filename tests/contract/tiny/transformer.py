"""Tiny arguments of the Transformer: each of its ways that matters, once."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2}

TINY = [
    SMALL,
    SMALL | {"target_vocab_size": 11, "placement": "pre", "num_kv_heads": 1, "gated": True, "activation": "silu"},
    SMALL | {"positions": "learned", "max_positions": 32, "decoder_layers": 1, "tied": "no"},
]
