"""Tiny arguments of LLaMA: plain, and with grouped queries, wide heads, biases and a scaling."""

SMALL = {"vocab_size": 13, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2}

TINY = [
    SMALL,
    SMALL
    | {"num_kv_heads": 1, "head_dim": 6, "attention_bias": True, "feedforward_bias": True, "tied": True}
    | {"scaling": {"part": "ByWavelength", "factor": 4.0, "original": 16}},
]
