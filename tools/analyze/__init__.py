"""What bmoe-analyze is made of."""
