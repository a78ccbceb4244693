"""Files of a run, as they are or compressed: committed ones are kept small."""

import gzip
import zlib
from pathlib import Path

from analyze.error import AnalyzeError


def find(path):
    """The file itself or the same with .gz; None if there is neither."""
    path = Path(path)
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def read(path):
    found = find(path)
    if found is None:
        raise AnalyzeError(f"{path} is missing: copy it from where the run was made, or repeat the run")
    try:
        content = found.read_bytes()
        if found.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise AnalyzeError(f"{found} cannot be read ({error}): repeat the run") from None
