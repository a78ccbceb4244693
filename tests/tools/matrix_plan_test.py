import unittest

from matrix.axes import AXES
from matrix.error import MatrixError
from matrix.matrix_file import parse
from matrix.plan import cells, plan

ENTRY = "[entry]\ncpu_temp_c = 60\nmem_available_mib = 4000\ncpu_idle_percent = 90\n"
AXES_TEXT = '[axes]\ncache-mb = [4000, 0]\noverlap = ["on", "off"]\n'


def matrix(top="", axes=AXES_TEXT, entry=ENTRY, models='models = ["m.gguf"]\n', allow_short=False):
    return parse(models + top + "\n" + axes + entry, allow_short)


def order(top, axes=AXES_TEXT, **more):
    return [(run.direction, run.round, run.cell.name) for run in plan(matrix(top, axes, **more))]


class Cells(unittest.TestCase):
    def test_one_at_a_time_has_the_base_and_one_cell_for_each_further_value(self):
        made = cells(matrix())
        self.assertEqual([cell.name for cell in made], ["base", "cache-mb=0", "overlap=off"])
        self.assertEqual(made[1].varied, {"cache-mb": "0"})
        self.assertEqual(made[1].axes["overlap"], "on")

    def test_full_has_every_combination(self):
        names = [cell.name for cell in cells(matrix('mode = "full"'))]
        self.assertEqual(names, ["base", "overlap=off", "cache-mb=0", "cache-mb=0,overlap=off"])

    def test_every_axis_is_in_every_cell_as_text(self):
        for cell in cells(matrix()):
            self.assertEqual(list(cell.axes), list(AXES))
            self.assertTrue(all(isinstance(value, str) for value in cell.axes.values()))

    def test_numbers_are_written_in_one_way(self):
        axes = "[axes]\ndrop-cold-experts = [\"off\", 0.75, 1.0]\n"
        self.assertEqual([cell.name for cell in cells(matrix(axes=axes))],
                         ["base", "drop-cold-experts=0.75", "drop-cold-experts=1"])


class Order(unittest.TestCase):
    def test_a_pass_runs_the_base_and_then_the_cells(self):
        self.assertEqual(order(""), [("forward", 1, "base"), ("forward", 1, "cache-mb=0"), ("forward", 1, "overlap=off")])

    def test_the_reversed_pass_follows_in_each_round(self):
        names = ["base", "cache-mb=0", "overlap=off"]
        expected = [(direction, number, name) for number in (1, 2) for direction, sequence in
                    (("forward", names), ("reversed", names[::-1])) for name in sequence]
        self.assertEqual(order("reversed = true\nrounds = 2"), expected)

    def test_interleaved_cells_each_follow_a_run_of_the_base(self):
        forward = ["base", "cache-mb=0", "base", "overlap=off"]
        names = [name for _, _, name in order("interleave = true\nreversed = true")]
        self.assertEqual(names, forward + forward[::-1])

    def test_pairs_are_at_positions_one_and_two_three_and_four(self):
        runs = plan(matrix("interleave = true\nreversed = true"))
        for first, second in zip(runs[::2], runs[1::2]):
            self.assertEqual((first.position % 2, second.position), (1, first.position + 1))
            self.assertEqual(sum(run.cell.name == "base" for run in (first, second)), 1)

    def test_each_model_has_its_own_base(self):
        runs = plan(matrix(models='models = ["a.gguf", "b.gguf"]\n'))
        self.assertEqual([(run.model, run.cell.name) for run in runs if run.cell.name == "base"],
                         [("a.gguf", "base"), ("b.gguf", "base")])
        self.assertEqual([run.position for run in runs], list(range(1, 7)))

    def test_names_are_unique_and_fit_for_files(self):
        runs = plan(matrix("rounds = 2\nreversed = true\ninterleave = true"))
        self.assertEqual(len({run.name for run in runs}), len(runs))
        self.assertEqual(runs[1].name, "0002-cache-mb-0-forward-1")


class Arguments(unittest.TestCase):
    def test_what_is_off_or_default_gives_no_flag(self):
        self.assertEqual(plan(matrix())[0].arguments(matrix()),
                         "--cache-mb 4000 --io-threads 4 --overlap on --dense-weights anon --no-warm-start".split())

    def test_every_axis_has_its_flag(self):
        axes = ('[axes]\ncache-mb = [0]\nio-threads = [1]\nthreads = [2]\noverlap = ["off"]\nn-expert-used = [6]\n'
                'drop-cold-experts = [0.5]\nsubstitute-cold = [0.9]\ndense-weights = ["mmap"]\n')
        made = matrix("warm_start = true", axes)
        self.assertEqual(plan(made)[0].arguments(made),
                         "--cache-mb 0 --io-threads 1 --threads 2 --overlap off --n-expert-used 6 --drop-cold-experts 0.5 "
                         "--substitute-cold 0.9 --dense-weights mmap".split())

    def test_flags_of_all_cells_come_last(self):
        made = matrix('flags = ["--route-replay", "a b.csv"]')
        self.assertEqual(plan(made)[0].arguments(made)[-3:], ["--no-warm-start", "--route-replay", "a b.csv"])


class Refusals(unittest.TestCase):
    def expect(self, words, *arguments, **more):
        with self.assertRaises(MatrixError) as caught:
            matrix(*arguments, **more)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_unknown_names_are_named_with_the_known_ones(self):
        self.expect(["colour", "models", "tokens"], "colour = 1")
        self.expect(["cache_mb", "cache-mb", "dense-weights"], axes="[axes]\ncache_mb = [1]\n")
        self.expect(["entry.temp", "cpu_temp_c"], entry=ENTRY + "temp = 1\n")

    def test_impossible_values_are_named_with_what_is_possible(self):
        for axis, value in (("cache-mb", "-1"), ("cache-mb", '"many"'), ("io-threads", "0"), ("io-threads", "65"), ("threads", "0"),
                            ("threads", "true"), ("overlap", "true"), ("n-expert-used", "0"), ("drop-cold-experts", "1.5"),
                            ("drop-cold-experts", "0"), ("drop-cold-experts", "nan"), ("substitute-cold", "1.1"),
                            ("dense-weights", '"ram"')):
            with self.subTest(axis=axis, value=value):
                self.expect([f"axes.{axis}", "give "], axes=f"[axes]\n{axis} = [{value}]\n")

    def test_an_axis_is_a_list_without_repetitions(self):
        self.expect(["axes.cache-mb", "list"], axes="[axes]\ncache-mb = 4\n")
        self.expect(["axes.cache-mb", "list"], axes="[axes]\ncache-mb = []\n")
        self.expect(["axes.cache-mb", "twice"], axes="[axes]\ncache-mb = [4, 4]\n")
        self.expect(["axes.substitute-cold", "twice"], axes="[axes]\nsubstitute-cold = [1, 1.0]\n")

    def test_models_are_needed_once_each(self):
        self.expect(["models"], models="")
        self.expect(["models"], models='models = "m.gguf"\n')
        self.expect(["twice"], models='models = ["m.gguf", "m.gguf"]\n')

    def test_few_tokens_need_short(self):
        self.expect(["tokens = 255", "--short"], "tokens = 255")
        self.assertTrue(matrix("tokens = 255", allow_short=True).is_short)
        self.assertFalse(matrix("tokens = 256", allow_short=True).is_short)

    def test_other_keys_have_their_types(self):
        for line in ('mode = "some"', "rounds = 0", "rounds = true", "reversed = 1", "interleave = \"yes\"", "warm_start = 0",
                     "memory_limit_mib = 0", 'flags = "--x"', "flags = [1]", "tokens = 256.0"):
            with self.subTest(line=line):
                self.expect([line.split()[0]], line)
        self.expect(["axes", "table"], "axes = 3", axes="")

    def test_thresholds_are_not_guessed(self):
        for key in ("cpu_temp_c", "mem_available_mib", "cpu_idle_percent"):
            with self.subTest(key=key):
                self.expect([f"entry.{key}", "-1"], entry="\n".join(line for line in ENTRY.splitlines() if not line.startswith(key)))
        self.expect(["entry.cpu_temp_c"], entry=ENTRY.replace("60", '"cool"'))
        self.expect(["entry.cpu_idle_percent"], entry=ENTRY.replace("90", "101"))
        self.expect(["entry.wait_s"], entry=ENTRY + "wait_s = -1\n")

    def test_flags_may_not_be_what_the_matrix_sets(self):
        for flag in ("--cache-mb", "--cache-mb=4", "-t", "-t4", "-n", "-n9", "--csv", "-m", "-p", "--no-warm-start", "--no-odirect"):
            with self.subTest(flag=flag):
                self.expect([f"flags may not have {flag}"], f'flags = ["{flag}"]')
        self.expect(["warm_start = true"], 'flags = ["--profile", "x"]')
        for flag in ("--no-think", "-c", "--route-replay", "--no-repack"):
            matrix(f'flags = ["{flag}"]')

    def test_what_is_no_toml(self):
        self.expect(["TOML"], "models")


if __name__ == "__main__":
    unittest.main()
