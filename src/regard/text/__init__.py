"""Text: corpora, their cleaning, named data sets, tokenizers. Nothing here needs torch."""
