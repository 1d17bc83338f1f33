"""Tiny arguments of the recurrent nets: each of their ways that matters, once."""

RECURRENT = {"vocab_size": 13, "dropout": 0.0, "d_model": 8}

TINY = [
    RECURRENT,
    RECURRENT | {"cell": "rnn", "context": "every_step", "d_embed": 6, "target_vocab_size": 11},
    RECURRENT | {"cell": "lstm", "both_ways": False, "num_layers": 3, "tied": "no"},
    RECURRENT | {"attention": "additive", "num_layers": 2},
    RECURRENT | {"attention": "dot", "cell": "lstm", "num_layers": 2},
    RECURRENT | {"attention": "general", "cell": "lstm", "num_layers": 2, "input_feeding": True},
    RECURRENT | {"attention": "concat", "cell": "rnn", "d_embed": 6},
    RECURRENT | {"attention": "scaled_dot"},
    RECURRENT | {"attention": "location", "max_length": 30},
]
