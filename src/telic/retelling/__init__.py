"""Sessions, searches and their like, told as ordinary studies."""
