"""Tiny arguments of Longformer: each of its ways that matters, once."""

SMALL = {"vocab_size": 13, "dropout": 0.0, "attention_dropout": 0.0, "num_layers": 2, "d_model": 8, "d_ff": 12}
SMALL |= {"num_heads": 2, "max_positions": 32, "window": (2, 4)}

TINY = [SMALL | {"global_tokens": 1}, SMALL | {"head": "tokens", "classes": 3, "segments": 2, "global_tokens": 2}]
