"""Serving: an engine that answers many people at once (engine, no HTTP in it), and the dialects that clients speak to it."""
