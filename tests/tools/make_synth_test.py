#!/usr/bin/env python3
"""Tables of tensors that make_synth.py makes, without their data, and what it refuses."""
import subprocess
import sys
import tempfile
import unittest

import small_tokenizer      # also finds the tools
import make_synth
from synth.container import Tensor
from synth.weights import Weights


def tensors(*arguments):
    c, shape = make_synth.configuration(["gen", "out.gguf", "--tokenizer", "folder", *arguments])
    return list(shape.tensors(c, Weights(c, first_special=100)))


def bytes_by_layer(made):
    """per layer: of one expert, of the rest of the layer"""
    sums = {}
    for t in made:
        if t.layer >= 0:
            of_layer = sums.setdefault(t.layer, [0, 0])
            if t.name.endswith("_exps.weight"):
                of_layer[0] += t.nbytes() // t.ne[2]
            else:
                of_layer[1] += t.nbytes()
    return [tuple(sums[layer]) for layer in range(len(sums))]


def table(made):
    return [(t.name, t.ne, t.type) for t in made]


class Shapes(unittest.TestCase):
    """The numbers are those in the headers of traces that were recorded on the real files."""

    def test_qwen3(self):
        more, less = (3059712, 11953152), (2654208, 11682816)
        layers = bytes_by_layer(tensors())
        self.assertEqual(layers, [more if l < 6 or l >= 42 or l % 3 == 2 else less for l in range(48)])

    def test_gemma4(self):
        layers = bytes_by_layer(tensors("--shape", "gemma4-26b-a4b"))
        self.assertEqual([e for e, _ in layers], [4336640 if l < 7 or l % 3 == 0 else 3593216 for l in range(30)])
        for layer, (_, rest) in enumerate(layers):
            more = layer in (0, 1, 2, 8, 14, 20, 26, 27, 28)
            self.assertEqual(rest, 52393476 if layer % 6 == 5 else 44191236 if more else 38987268, layer)

    def test_gpt_oss(self):
        layers = bytes_by_layer(tensors("--shape", "gpt-oss-120b"))
        more = [*range(4), *range(6, 31, 3), *range(31, 36)]
        self.assertEqual(layers, [(13219200, 23280128 if l in more else 22727168) for l in range(36)])

    def test_fewer_layers_are_the_first_of_the_whole_model(self):
        for shape in ("gemma4-26b-a4b", "gpt-oss-120b"):
            whole = {entry[0]: entry for entry in table(tensors("--shape", shape))}
            few = table(tensors("--shape", shape, "--layers", "7"))
            self.assertEqual(few, [whole[name] for name, _, _ in few])

    def test_qwen3_is_the_default(self):
        self.assertEqual(table(tensors("--layers", "3")), table(tensors("--layers", "3", "--shape", "qwen3-30b-a3b")))

    def test_a_file_says_what_was_reduced(self):
        def texts(*arguments):
            c, shape = make_synth.configuration(["gen", "out.gguf", "--tokenizer", "folder", *arguments])
            metadata = dict(shape.metadata(c))
            return metadata["general.name"], metadata.get("general.description", "")
        name, description = texts("--shape", "gpt-oss-120b", "--layers", "12")
        self.assertIn("12 of 36 layers", name)
        self.assertIn("12 of 36 layers", description)
        name, description = texts("--shape", "gpt-oss-120b")
        self.assertEqual(name, "gpt-oss-120b-synth")
        self.assertNotIn("reduced", description)
        self.assertEqual(texts()[0], "Qwen3-30B-A3B-synth")


class Refusals(unittest.TestCase):
    def refusal(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            small_tokenizer.write(folder)
            run = subprocess.run([sys.executable, "-B", small_tokenizer.TOOLS / "make_synth.py", "gen", folder + "/out.gguf",
                                  "--tokenizer", folder, *arguments], capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("Traceback", run.stderr)
        return run.stderr

    def test_more_layers_than_the_shape_has(self):
        self.assertIn("--layers 37: gpt-oss-120b has 1 to 36", self.refusal("--shape", "gpt-oss-120b", "--layers", "37"))

    def test_rows_that_are_not_whole_blocks(self):
        self.assertIn("blk.0.ffn_down_exps.weight: rows of 100 values", self.refusal("--layers", "1", "--ff", "100"))

    def test_an_embedding_without_room_for_tokens(self):
        self.assertIn("--embd 768", self.refusal("--embd", "768"))

    def test_a_vocabulary_smaller_than_the_tokenizer(self):
        self.assertIn("--vocab 100", self.refusal("--vocab", "100"))

    def test_a_calibration_of_another_shape(self):
        calib = str(small_tokenizer.TOOLS / "make_synth.calib.json")
        self.assertIn("was measured on 48 layers, gpt-oss-120b has 36",
                      self.refusal("--shape", "gpt-oss-120b", "--calib", calib))

    def test_a_tokenizer_that_is_not_there(self):
        self.assertIn("nowhere", self.refusal("--tokenizer", "nowhere"))


if __name__ == "__main__":
    unittest.main()
