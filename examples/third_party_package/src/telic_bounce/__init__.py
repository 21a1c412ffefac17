"""One part of every kind that telic takes from other packages, as small as each can be."""
