"""Reading a matrix file (TOML), and refusing what is wrong with it by name."""

import dataclasses
import re
import tomllib
from dataclasses import dataclass

from matrix.axes import AXES
from matrix.entry import Thresholds
from matrix.error import MatrixError

LEAST_TOKENS = 256  # what the expert cache needs to be in its steady state

_KEYS = ("models", "tokens", "mode", "rounds", "reversed", "interleave", "warm_start", "memory_limit_mib", "flags", "axes", "entry")
_MODES = ("one-at-a-time", "full")

# Flags that all cells may not have, and why.
_TAKEN = {
    **{axis.flag: f"it is an axis: write it under [axes] as {axis.name}" for axis in AXES.values()},
    "-t": "it is an axis: write it under [axes] as threads",
    **dict.fromkeys(("-m", "--model", "--list-models"), "the model is named under models"),
    **dict.fromkeys(("-n", "--predict"), "the number of tokens is named under tokens"),
    **dict.fromkeys(("-p", "--prompt", "-f", "--file", "--session"), "the prompt is the one in bench-run.sh, the same for all cells"),
    **dict.fromkeys(("--csv", "--progress"), "every run has it already"),
    "--no-warm-start": "every run has it already, unless warm_start = true",
    "--no-odirect": "a run that reads through the page cache measures memory, and counts as failed",
}


@dataclass(frozen=True)
class Matrix:
    models: tuple
    tokens: int
    mode: str
    rounds: int
    reversed: bool
    interleave: bool
    warm_start: bool
    memory_limit_mib: int  # 0: none
    flags: tuple
    axes: dict  # name: values as text; the first is the base
    entry: Thresholds

    @property
    def is_short(self):
        return self.tokens < LEAST_TOKENS

    def base(self):
        return {name: self.axes[name][0] if name in self.axes else axis.usual for name, axis in AXES.items()}

    def as_dict(self):
        return dataclasses.asdict(self)


def _check_keys(table, known, where):
    for key in table:
        if key not in known:
            raise MatrixError(f"unknown key {where}{key}; known are {', '.join(known)}")


def _whole(table, key, usual, least):
    value = table.get(key, usual)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise MatrixError(f"{key} = {value!r}: give a whole number from {least}")
    return value


def _flag(table, key, usual):
    value = table.get(key, usual)
    if not isinstance(value, bool):
        raise MatrixError(f"{key} = {value!r}: give true or false")
    return value


def _texts(table, key):
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise MatrixError(f"{key} = {value!r}: give a list of texts")
    return tuple(value)


def _table(document, key):
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise MatrixError(f"{key} is a table: write [{key}], and its keys below")
    return value


def _models(document):
    models = _texts(document, "models")
    if not models:
        raise MatrixError('models is missing: name at least one, such as models = ["/models/model.gguf"]')
    if len(set(models)) < len(models):
        raise MatrixError("models names a model twice")
    return models


def _axes(table):
    axes = {}
    for name, given in table.items():
        if name not in AXES:
            raise MatrixError(f"unknown axis {name}; known are {', '.join(AXES)}")
        if not isinstance(given, list) or not given:
            raise MatrixError(f"axes.{name} = {given!r}: give a list of values, the first of which is the base")
        values = tuple(AXES[name].value(value) for value in given)
        if len(set(values)) < len(values):
            raise MatrixError(f"axes.{name} has a value twice")
        axes[name] = values
    return axes


def _flags(document, warm_start):
    flags = _texts(document, "flags")
    for word in flags:
        name = word.partition("=")[0]
        short = re.match(r"-[mnpt](?=[^-])", name)  # -t4
        reason = _TAKEN.get(name) or (short and _TAKEN[short.group()])
        if reason:
            raise MatrixError(f"flags may not have {word}: {reason}")
        if name == "--profile" and not warm_start:
            raise MatrixError("flags has --profile, which means a warm start: write warm_start = true as well")
    return flags


def parse(text, allow_short=False):
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MatrixError(f"this is no TOML: {error}") from None
    _check_keys(document, _KEYS, "")
    mode = document.get("mode", _MODES[0])
    if mode not in _MODES:
        raise MatrixError(f"mode = {mode!r}: give {' or '.join(map(repr, _MODES))}")
    tokens = _whole(document, "tokens", LEAST_TOKENS, 1)
    if tokens < LEAST_TOKENS and not allow_short:
        raise MatrixError(f"tokens = {tokens}: the expert cache needs {LEAST_TOKENS} to be in its steady state; "
                          "--short allows fewer for a trial, and its results are marked")
    memory_limit_mib = _whole(document, "memory_limit_mib", 1, 1) if "memory_limit_mib" in document else 0
    warm_start = _flag(document, "warm_start", False)
    return Matrix(
        models=_models(document),
        tokens=tokens,
        mode=mode,
        rounds=_whole(document, "rounds", 1, 1),
        reversed=_flag(document, "reversed", False),
        interleave=_flag(document, "interleave", False),
        warm_start=warm_start,
        memory_limit_mib=memory_limit_mib,
        flags=_flags(document, warm_start),
        axes=_axes(_table(document, "axes")),
        entry=Thresholds.parse(_table(document, "entry")),
    )


def load(path, allow_short=False):
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse(text, allow_short)
    except MatrixError as error:
        raise MatrixError(f"{path}: {error}") from None
