class MatrixError(Exception):
    """What cannot be done, as a sentence for the user."""
