"""How good translations are: scores, the model's own likelihood, and two systems side by side."""
