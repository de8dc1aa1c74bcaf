"""The parts of calibrate.py."""
