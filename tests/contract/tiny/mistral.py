"""Tiny arguments of Mistral: a window shorter than the texts."""

TINY = [{"vocab_size": 13, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2, "num_kv_heads": 1, "window": 3}]
