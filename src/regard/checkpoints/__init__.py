"""Model folders: two-way tables of names (rules), reading and writing (folders), the model card, averages."""
