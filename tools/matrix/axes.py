"""The settings that a matrix varies, their values, and the flags of bmoe-cli that they become."""

from dataclasses import dataclass
from typing import Callable

from matrix.error import MatrixError


@dataclass(frozen=True)
class Axis:
    name: str
    flag: str
    usual: str  # the value where the matrix does not name the axis
    allowed: str  # for messages
    accepts: Callable[[object], bool]
    unset: tuple = ()  # values for which no flag is given

    def value(self, given):
        """The value as text, the same for all ways to write a number."""
        if not self.accepts(given):
            raise MatrixError(f"axes.{self.name}: {given!r} is no value for it: give {self.allowed}")
        return format(given, "g") if isinstance(given, float) else str(given)

    def arguments(self, value):
        return [] if value in self.unset else [self.flag, value]


def _whole(given, least, most):
    return isinstance(given, int) and not isinstance(given, bool) and least <= given <= most


def _number(given, most):
    # Zero would be "off", said in another way: a cell that does not differ.
    return isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given <= most


def _one_of(*words):
    return lambda given: isinstance(given, str) and given in words


AXES = {
    axis.name: axis
    for axis in (
        Axis("cache-mb", "--cache-mb", "auto", 'a number of MiB, 0 for no cache, or "auto"',
             lambda given: given == "auto" or _whole(given, 0, 1 << 30)),
        Axis("io-threads", "--io-threads", "4", "a number from 1 to 64", lambda given: _whole(given, 1, 64)),
        Axis("threads", "--threads", "default", 'a number from 1 to 512, or "default" for one per physical core',
             lambda given: given == "default" or _whole(given, 1, 512), ("default",)),
        Axis("overlap", "--overlap", "on", '"on" or "off"', _one_of("on", "off")),
        Axis("n-expert-used", "--n-expert-used", "default", 'a number from 1, or "default" for the model\'s own',
             lambda given: given == "default" or _whole(given, 1, 1 << 16), ("default",)),
        Axis("drop-cold-experts", "--drop-cold-experts", "off", 'a number above 0 up to 1, or "off"',
             lambda given: given == "off" or _number(given, 1), ("off",)),
        Axis("substitute-cold", "--substitute-cold", "off", 'a number above 0 up to 1, or "off"',
             lambda given: given == "off" or _number(given, 1), ("off",)),
        Axis("dense-weights", "--dense-weights", "anon", '"anon", "warm" or "mmap"', _one_of("anon", "warm", "mmap")),
    )
}


def arguments(values):
    """The flags for a cell: `values` has every axis."""
    return [word for name, axis in AXES.items() for word in axis.arguments(values[name])]
