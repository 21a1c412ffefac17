"""Physics: N simulations of one model behind one small protocol."""
