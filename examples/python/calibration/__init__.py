"""What calibrate.py consists of."""
