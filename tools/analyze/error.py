class AnalyzeError(Exception):
    """One sentence for the user: what is wrong with which file, and what to do."""
