"""When a run may begin: once the machine has been measured to be as cool, free and idle as the matrix asks for."""

import time
from dataclasses import dataclass
from datetime import datetime, timezone

from matrix.error import MatrixError

MEASURED = ("cpu_temp_c", "mem_available_bytes", "cpu_idle_percent", "scaling_max_freq_khz")

_KNOWN = ("cpu_temp_c", "mem_available_mib", "cpu_idle_percent", "wait_s", "poll_s")
_MEANING = {
    "cpu_temp_c": "the degrees that the processor may have when a run begins",
    "mem_available_mib": "the MiB that must be available when a run begins",
    "cpu_idle_percent": "the percent of the processors that must be idle when a run begins",
}


def _number(table, key, least):
    value = table[key]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not (value == -1 or least <= value < 1e9):
        raise MatrixError(f"entry.{key} = {value!r}: give a number" + ("" if key.endswith("_s") else ", or -1 to check nothing"))
    return value


@dataclass(frozen=True)
class Thresholds:
    cpu_temp_c: float  # -1 in any of the three: not checked
    mem_available_bytes: int
    cpu_idle_percent: float
    wait_s: float
    poll_s: float

    @classmethod
    def parse(cls, table):
        for key in table:
            if key not in _KNOWN:
                raise MatrixError(f"unknown key entry.{key}; known are {', '.join(_KNOWN)}")
        for key, meaning in _MEANING.items():
            # They depend on the machine too much for a default.
            if key not in table:
                raise MatrixError(f"entry.{key} is missing: give {meaning}, or -1 to check nothing")
        times = {"wait_s": 600, "poll_s": 5} | {key: table[key] for key in ("wait_s", "poll_s") if key in table}
        for key in times:
            if _number(times, key, 0) < 0:
                raise MatrixError(f"entry.{key} = {times[key]!r}: give a number of seconds")
        idle = _number(table, "cpu_idle_percent", 0)
        if idle > 100:
            raise MatrixError(f"entry.cpu_idle_percent = {idle}: there are 100 at most")
        mib = _number(table, "mem_available_mib", 0)
        return cls(_number(table, "cpu_temp_c", 0), -1 if mib == -1 else int(mib * (1 << 20)), idle, **times)

    def limits(self):
        return {name: getattr(self, name) for name in MEASURED[:3]}

    def missed(self, state):
        """What `state` is still over or under, in words; empty if the run may begin. What was not measured is not checked."""
        missed = []
        temperature, available, idle = (state[name] for name in MEASURED[:3])
        if -1 not in (self.cpu_temp_c, temperature) and temperature > self.cpu_temp_c:
            missed.append(f"CPU at {temperature:g} C, over {self.cpu_temp_c:g} C")
        if -1 not in (self.mem_available_bytes, available) and available < self.mem_available_bytes:
            missed.append(f"{available >> 20} MiB available, under {self.mem_available_bytes >> 20} MiB")
        if -1 not in (self.cpu_idle_percent, idle) and idle < self.cpu_idle_percent:
            missed.append(f"CPU {idle:g} % idle, under {self.cpu_idle_percent:g} %")
        return ", ".join(missed)

    def unmeasurable(self, state):
        """Names of thresholds for which the machine has no figure."""
        return [name for name in MEASURED[:3] if getattr(self, name) != -1 and state[name] == -1]


def parse_state(text):
    """What `bench-run.sh --state` printed."""
    state = dict.fromkeys(MEASURED, -1)
    for line in text.splitlines():
        name, _, value = line.strip().partition("=")
        if name in state:
            try:
                number = float(value)
            except ValueError:
                continue
            state[name] = int(number) if number.is_integer() else number
    return state


def wait_for_entry(thresholds, read_state, on_wait=lambda reason, waited: None, clock=time.monotonic, sleep=time.sleep,
                   now=lambda: datetime.now(timezone.utc)):
    """Waits until `read_state()` misses no threshold, at most wait_s. Returns the record of how the run began."""
    started = clock()
    while True:
        time_read = now()
        state = read_state()
        reason = thresholds.missed(state)
        waited = clock() - started
        gave_up = bool(reason) and waited >= thresholds.wait_s
        if not reason or gave_up:
            return {
                "time": time_read.isoformat(timespec="seconds"),
                **state,
                "waited_s": round(waited, 1),
                "gave_up": gave_up,
                "reason": reason,
                "thresholds": thresholds.limits(),
            }
        on_wait(reason, waited)
        sleep(min(thresholds.poll_s, max(0.0, thresholds.wait_s - waited)))
