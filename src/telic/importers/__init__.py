"""Work done elsewhere, as studies: sessions, searches and older trees, read and written anew."""
