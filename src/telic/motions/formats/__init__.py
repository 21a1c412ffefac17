"""Files of motions that others write: read by what is in them, never by what they are called."""
