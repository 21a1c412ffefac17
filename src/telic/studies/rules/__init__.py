"""Rules of studies: checks, gates, stops, phases and objections, each looking at a study."""
