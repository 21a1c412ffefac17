"""Work done elsewhere, as studies: sessions and searches are read, and written as a study."""
