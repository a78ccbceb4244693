import unittest

from matrix.entry import Thresholds, parse_state, wait_for_entry

COOL = {"cpu_temp_c": 45.5, "mem_available_bytes": 8 << 30, "cpu_idle_percent": 99, "scaling_max_freq_khz": 2000000}
LIMITS = {"cpu_temp_c": 60, "mem_available_mib": 4096, "cpu_idle_percent": 90, "wait_s": 30, "poll_s": 10}


class FakeMachine:
    """A clock that only sleeping moves, and states one after the other; the last stays."""

    def __init__(self, *states):
        self.states = list(states)
        self.time = 100.0
        self.waits = []

    def state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def sleep(self, seconds):
        self.time += seconds

    def enter(self, **limits):
        return wait_for_entry(Thresholds.parse(LIMITS | limits), self.state, lambda reason, waited: self.waits.append((reason, waited)),
                              clock=lambda: self.time, sleep=self.sleep)


class Entry(unittest.TestCase):
    def test_a_cool_machine_begins_at_once_and_its_state_is_recorded(self):
        entry = FakeMachine(COOL).enter()
        self.assertEqual((entry["waited_s"], entry["gave_up"], entry["reason"]), (0, False, ""))
        self.assertEqual({name: entry[name] for name in COOL}, COOL)
        self.assertEqual(entry["thresholds"], {"cpu_temp_c": 60, "mem_available_bytes": 4 << 30, "cpu_idle_percent": 90})
        self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")

    def test_each_threshold_is_waited_for(self):
        for change, words in (({"cpu_temp_c": 60.1}, "CPU at 60.1 C, over 60 C"),
                              ({"mem_available_bytes": (4 << 30) - 1}, "4095 MiB available, under 4096 MiB"),
                              ({"cpu_idle_percent": 89.9}, "CPU 89.9 % idle, under 90 %")):
            with self.subTest(change=change):
                machine = FakeMachine(COOL | change, COOL | change, COOL)
                entry = machine.enter()
                self.assertEqual(machine.waits, [(words, 0), (words, 10)])
                self.assertEqual((entry["waited_s"], entry["gave_up"], entry["reason"]), (20, False, ""))
                self.assertEqual({name: entry[name] for name in COOL}, COOL)

    def test_exactly_at_a_threshold_begins(self):
        entry = FakeMachine(COOL | {"cpu_temp_c": 60, "mem_available_bytes": 4 << 30, "cpu_idle_percent": 90}).enter()
        self.assertEqual(entry["waited_s"], 0)

    def test_giving_up_is_recorded_with_all_reasons(self):
        machine = FakeMachine(COOL | {"cpu_temp_c": 88.8, "mem_available_bytes": 1 << 30})
        entry = machine.enter(wait_s=25)
        self.assertEqual((entry["waited_s"], entry["gave_up"]), (25, True))
        self.assertEqual(entry["reason"], "CPU at 88.8 C, over 60 C, 1024 MiB available, under 4096 MiB")
        self.assertEqual(entry["cpu_temp_c"], 88.8)

    def test_what_is_not_measured_is_not_checked(self):
        blind = dict.fromkeys(COOL, -1)
        self.assertEqual(FakeMachine(blind).enter()["reason"], "")
        self.assertEqual(Thresholds.parse(LIMITS).unmeasurable(blind), ["cpu_temp_c", "mem_available_bytes", "cpu_idle_percent"])

    def test_what_is_not_asked_for_is_not_checked(self):
        hot = COOL | {"cpu_temp_c": 90, "mem_available_bytes": 0, "cpu_idle_percent": 0}
        unlimited = {"cpu_temp_c": -1, "mem_available_mib": -1, "cpu_idle_percent": -1}
        entry = FakeMachine(hot).enter(**unlimited)
        self.assertEqual((entry["gave_up"], entry["reason"]), (False, ""))
        self.assertEqual(entry["thresholds"], {"cpu_temp_c": -1, "mem_available_bytes": -1, "cpu_idle_percent": -1})
        self.assertEqual(Thresholds.parse(LIMITS | unlimited).unmeasurable(dict.fromkeys(COOL, -1)), [])

    def test_the_state_is_read_from_what_the_script_prints(self):
        text = "cpu_idle_percent=98.5\ncpu_temp_c=-1\nmem_available_bytes=24680042496\r\nnoise\nscaling_max_freq_khz=\n"
        self.assertEqual(parse_state(text), {"cpu_temp_c": -1, "mem_available_bytes": 24680042496, "cpu_idle_percent": 98.5,
                                             "scaling_max_freq_khz": -1})


if __name__ == "__main__":
    unittest.main()
