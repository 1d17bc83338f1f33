"""Looking into a model: what attends to what (tape), what happens without a head (change), pictures of it (views)."""
