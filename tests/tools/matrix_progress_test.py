import io
import unittest

from matrix.progress import Progress


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


class Lines(unittest.TestCase):
    def run_two_of_four(self, is_terminal):
        stream = Stream(is_terminal)
        now = [0.0]
        progress = Progress(stream, 4, 1, clock=lambda: now[0])
        progress.begin("first")
        progress.waiting("CPU at 80 C, over 60 C", 0)
        progress.waiting("CPU at 70 C, over 60 C", 65)
        now[0] = 100.0
        progress.tick()
        progress.end("ok, 8.85 tok/s")
        progress.begin("second")
        now[0] = 300.0
        progress.end("FAILED: why")
        progress.begin("third")
        progress.close()
        return stream.getvalue()

    def test_elsewhere_than_on_a_terminal_there_are_plain_lines(self):
        self.assertEqual(self.run_two_of_four(False),
                         "[2/4] first waits: CPU at 80 C, over 60 C\n"
                         "[2/4] first: ok, 8.85 tok/s; ETA 3:20\n"
                         "[3/4] second: FAILED: why; ETA 2:30\n")

    def test_on_a_terminal_there_is_a_bar(self):
        text = self.run_two_of_four(True)
        self.assertIn("\r\x1b[K[#####---------------] 1/4 first waits (1:05): CPU at 70 C, over 60 C", text)
        self.assertIn("[###############-----] 3/4 ETA 2:30 third", text)
        self.assertTrue(text.endswith("\r\x1b[K"))

    def test_the_last_run_has_no_eta(self):
        stream = Stream(False)
        progress = Progress(stream, 1, 0, clock=lambda: 0.0)
        progress.begin("only")
        progress.end("ok")
        self.assertEqual(stream.getvalue(), "[1/1] only: ok\n")


if __name__ == "__main__":
    unittest.main()
