"""Tiny arguments of RoBERTa: each of its ways with answers for each token, once."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "attention_dropout": 0.0, "num_layers": 2, "d_model": 8, "d_ff": 12}
SMALL |= {"num_heads": 2, "max_positions": 40}

TINY = [
    SMALL,
    SMALL | {"head": "tokens", "classes": 5, "pad": 0},
]
