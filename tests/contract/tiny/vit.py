"""The vision Transformer reads pixels: what these tests ask of tokens does not apply to it; its own test asks the rest."""

TINY: list[dict[str, object]] = []
