"""The parts of make_synth.py."""
