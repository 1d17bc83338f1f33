"""Tiny arguments for every architecture: each of its ways that matters once. A new file in models/ adds its name here."""

COMMON = {"vocab_size": 13, "dropout": 0.0}
SMALL = COMMON | {"num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2}
RECURRENT = COMMON | {"d_model": 8}

TINY = {
    "transformer": [
        SMALL,
        SMALL | {"target_vocab_size": 11, "placement": "pre", "num_kv_heads": 1, "gated": True, "activation": "silu"},
        SMALL | {"positions": "learned", "max_positions": 32, "decoder_layers": 1, "tied": "no"},
    ],
    "rnn": [
        RECURRENT,
        RECURRENT | {"cell": "rnn", "context": "every_step", "d_embed": 6, "target_vocab_size": 11},
        RECURRENT | {"cell": "lstm", "both_ways": False, "num_layers": 3, "tied": "no"},
        RECURRENT | {"attention": "additive", "num_layers": 2},
        RECURRENT | {"attention": "dot", "cell": "lstm", "num_layers": 2},
        RECURRENT | {"attention": "general", "cell": "lstm", "num_layers": 2, "input_feeding": True},
        RECURRENT | {"attention": "concat", "cell": "rnn", "d_embed": 6},
        RECURRENT | {"attention": "scaled_dot"},
        RECURRENT | {"attention": "location", "max_length": 30},
    ],
}
