"""How results are shown to people, by their types."""
