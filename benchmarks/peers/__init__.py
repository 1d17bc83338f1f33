"""What runs in the peers' own environments, and their pinned requirements."""
