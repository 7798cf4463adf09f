"""All rungs of a run and their swaps, stepped together. May import `mode_search` and below."""
