"""regard: train, look into and serve attention models."""
