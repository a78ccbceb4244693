"""What bench-run.sh reads of a machine whose sensors are files of the test."""

import os
import tempfile
import unittest
from pathlib import Path

from bench_run_support import BENCH_RUN, DEMO, fast_sleep, read_metrics, run, shells


class Sensors(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.roots = {"BMOE_BENCH_PROC": str(self.scratch / "proc"), "BMOE_BENCH_SYS": str(self.scratch / "sys")}
        self.write("proc/mounts", "none / ext4 rw 0 0")

    def write(self, name, *lines):
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def zone(self, number, kind, temperature):
        self.write(f"sys/class/thermal/thermal_zone{number}/type", kind)
        self.write(f"sys/class/thermal/thermal_zone{number}/temp", temperature)

    def supply(self, name, **files):
        for file, content in files.items():
            self.write(f"sys/class/power_supply/{name}/{file}", content)

    def states(self):
        """Under each shell."""
        for name, shell, path in shells(self.scratch):
            with self.subTest(shell=name):
                done = run([*shell, BENCH_RUN, "--state"], PATH=path, **self.roots)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                yield dict(line.split("=") for line in done.stdout.splitlines())

    def run_stand_in(self, script, **environment):
        """The metrics of a run of `script`, in the place of bmoe-cli."""
        program = self.scratch / "program"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)
        done = run(["sh", BENCH_RUN, "-n", 4, program, DEMO, self.scratch / "out"],
                   PATH=fast_sleep(self.scratch), **(self.roots | environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_metrics(self.scratch / "out.metrics")

    def test_nothing_to_read_is_minus_one(self):
        for state in self.states():
            self.assertEqual(state, dict.fromkeys(("cpu_idle_percent", "cpu_temp_c", "mem_available_bytes", "scaling_max_freq_khz"), "-1"))
        metrics = self.run_stand_in("exit 0")
        for name in ("mem_available_start_bytes", "mem_available_floor_bytes", "mem_available_end_bytes", "cpu_temp_start_c",
                     "cpu_temp_max_c", "battery_temp_start_c", "battery_temp_max_c", "battery_level_start", "scaling_max_freq_start_khz",
                     "scaling_max_freq_min_khz", "psi_cpu_max", "psi_memory_max", "psi_io_max"):
            self.assertEqual(metrics[name], "-1", name)

    def test_the_hottest_processor_zone_counts_and_trip_points_do_not(self):
        self.zone(0, "cpu-hw-trip-0", "95000")
        self.zone(1, "battery", "99000")
        self.zone(2, "gpuss-0", "98000")
        self.zone(3, "cpu-0-0-usr", "45300")
        self.zone(4, "cpu-1-3", "61250")
        self.zone(5, "cpuss-1", "-274000")  # switched off
        self.zone(10, "cpu-2-0", "52000")
        for state in self.states():
            self.assertEqual(state["cpu_temp_c"], "61.2")

    def test_trip_points_alone_are_no_sensor(self):
        self.zone(0, "cpu-hw-trip-0", "95000")
        for state in self.states():
            self.assertEqual(state["cpu_temp_c"], "-1")

    def test_sensors_of_pcs(self):
        self.zone(0, "acpitz", "90000")
        self.zone(1, "x86_pkg_temp", "50000")
        self.write("sys/class/hwmon/hwmon0/name", "nvme")
        self.write("sys/class/hwmon/hwmon0/temp1_input", "80000")
        for state in self.states():
            self.assertEqual(state["cpu_temp_c"], "50.0")
        self.write("sys/class/hwmon/hwmon1/name", "k10temp")
        self.write("sys/class/hwmon/hwmon1/temp1_input", "70125")
        for state in self.states():
            self.assertEqual(state["cpu_temp_c"], "70.1")

    def test_memory_beyond_32_bits(self):
        for kib, expected in (("24105896", 24105896 * 1024), ("999", 999 * 1024), ("0", 0), ("1073741823", 1073741823 * 1024),
                              ("4000000", 4096000000)):
            self.write("proc/meminfo", "MemTotal:       99 kB", f"MemAvailable:   {kib} kB")
            for state in self.states():
                self.assertEqual(state["mem_available_bytes"], str(expected))

    def test_the_fastest_cluster_gives_the_frequency(self):
        for cpu, frequency in ((0, "1800000"), (4, "2400000"), (7, "3200000"), (10, "2000000")):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq", frequency)
        self.write("sys/devices/system/cpu/cpufreq/scaling_max_freq", "9000000")
        for state in self.states():
            self.assertEqual(state["scaling_max_freq_khz"], "3200000")

    def test_processors_are_idle_by_what_passes_in_a_second(self):
        # What is read first and what is read then differ by a file that a sleep replaces.
        first, then = "cpu  100 0 100 8000000000 0 0 0 0 0 0", "cpu  120 0 130 8000000150 0 0 0 0 0 0"
        self.write("proc/stat", first)
        for state in self.states():
            self.assertEqual(state["cpu_idle_percent"], "-1")  # no time has passed
        sleep = self.scratch / "fast" / "sleep"
        fast_sleep(self.scratch)
        sleep.write_text(f"#!/bin/sh\necho '{then}' >{self.scratch}/proc/stat\n")
        for name, shell, path in shells(self.scratch):
            with self.subTest(shell=name):
                self.write("proc/stat", first)
                # The shell by its own path: the stand-in for sleep comes first, and busybox has one built in.
                if name == "busybox":
                    continue
                done = run([*shell, BENCH_RUN, "--state"], PATH=f"{sleep.parent}:{path}", **self.roots)
                self.assertIn("cpu_idle_percent=75.0\n", done.stdout)

    def test_a_run_keeps_the_extremes(self):
        self.zone(0, "cpu-0", "40000")
        self.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3000000")
        self.write("proc/meminfo", "MemAvailable: 8000000 kB")
        for kind, value in (("cpu", "0.08"), ("memory", "0.00"), ("io", "1.00")):
            self.write(f"proc/pressure/{kind}", f"some avg10={value} avg60=0.00 avg300=0.00 total=1", "full avg10=9.99")
        self.supply("mouse", type="Battery", scope="Device", capacity="3")
        self.supply("usb", type="USB")
        self.supply("main", type="Battery", temp="285", capacity="81")
        root = self.scratch
        metrics = self.run_stand_in(f"""
            echo 88800 >{root}/sys/class/thermal/thermal_zone0/temp
            echo 1200000 >{root}/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
            echo 'MemAvailable: 3000000 kB' >{root}/proc/meminfo
            echo 'some avg10=34.20 avg60=0' >{root}/proc/pressure/io
            sleep 1; sleep 1; sleep 1; sleep 1; sleep 1
            echo 50000 >{root}/sys/class/thermal/thermal_zone0/temp
            echo 2000000 >{root}/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
            echo 'MemAvailable: 7000000 kB' >{root}/proc/meminfo
            echo 312 >{root}/sys/class/power_supply/main/temp
        """)
        expected = {
            "cpu_temp_start_c": "40.0", "cpu_temp_max_c": "88.8", "scaling_max_freq_start_khz": "3000000",
            "scaling_max_freq_min_khz": "1200000", "mem_available_start_bytes": "8192000000", "mem_available_floor_bytes": "3072000000",
            "mem_available_end_bytes": "7168000000", "psi_cpu_max": "0.08", "psi_memory_max": "0.00", "psi_io_max": "34.20",
            "battery_temp_start_c": "28.5", "battery_temp_max_c": "31.2", "battery_level_start": "81"}
        self.assertEqual({name: metrics[name] for name in expected}, expected)

    def test_a_phone_that_hides_its_battery_is_asked(self):
        tool = self.scratch / "fast" / "dumpsys"
        fast_sleep(self.scratch)
        tool.write_text("#!/bin/sh\n[ \"$1\" = battery ] && printf 'Current Battery Service state:\\n  level: 77\\n  scale: 100\\n"
                        "  temperature: 384\\n'\n")
        tool.chmod(0o755)
        metrics = self.run_stand_in("exit 0")
        self.assertEqual([metrics[name] for name in ("battery_level_start", "battery_temp_start_c", "battery_temp_max_c")],
                         ["77", "38.4", "38.4"])

    def test_a_text_that_ended_early_is_told(self):
        program = self.scratch / "program"
        program.write_text("#!/bin/sh\necho 'generation: 3 tokens, 1 s/token' >&2\n")
        program.chmod(0o755)
        done = run(["sh", BENCH_RUN, "-n", 4, program, DEMO, self.scratch / "out"], PATH=fast_sleep(self.scratch))
        self.assertIn("ended its text after 3 of 4 tokens", done.stderr)


if __name__ == "__main__":
    unittest.main()
