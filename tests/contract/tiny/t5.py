"""Tiny arguments of T5: each of its ways that matters, once."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2, "head_dim": 3}
SMALL |= {"buckets": 8, "farthest": 12}

TINY = [SMALL, SMALL | {"gated": True, "activation": "gelu_tanh", "tied": "embeddings", "decoder_layers": 1}]
