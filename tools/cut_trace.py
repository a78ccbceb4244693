#!/usr/bin/env python3
"""Cut a route trace to its first N expert layers, to replay it on a model with fewer layers than the recorded one.

bmoe-cli --route-replay wants a trace with the model's number of expert layers. A line of the header says what was cut."""
import argparse
import re
import sys

MAGIC = "# route_trace v1"


def cut(lines, n, name):
    """The lines that are kept. Raises ValueError, naming the line, for what is no trace or has fewer layers."""
    n_layer = None
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        where = "%s, line %d: " % (name, number)
        if number == 1 and line != MAGIC:
            raise ValueError(where + "is not '%s': this is not a route trace" % MAGIC)
        if line.startswith("# model="):
            match = re.search(r" n_layer=(\d+)( |$)", line)
            if not match:
                raise ValueError(where + "n_layer is missing")
            n_layer = int(match[1])
            if not 1 <= n <= n_layer:
                raise ValueError("--layers %d: %s has %d expert layers" % (n, name, n_layer))
            yield "# cut to the first %d of %d expert layers" % (n, n_layer)
            yield line[:match.start(1)] + str(n) + line[match.end(1):]
            continue
        of_layer = re.match(r"# layer=(\d+) ", line)
        if of_layer:
            layer = int(of_layer[1])
        elif line and line[0].isdigit():
            columns = line.split(",", 4)
            if n_layer is None:
                raise ValueError(where + "rows begin before the header with model= and n_layer=")
            if len(columns) < 5 or not columns[3].isdigit():
                raise ValueError(where + "has no layer in its fourth column")
            layer = int(columns[3])
        else:
            layer = 0       # comments and the names of the columns
        if layer < n:
            yield line
    if n_layer is None:
        raise ValueError("%s: has no header with model= and n_layer=" % name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", metavar="N", type=int, required=True, help="expert layers to keep")
    parser.add_argument("trace", metavar="IN")
    parser.add_argument("out", metavar="OUT", help="must not exist")
    args = parser.parse_args()
    try:
        with open(args.trace, encoding="utf-8") as trace:
            kept = list(cut(trace, args.layers, args.trace))
        with open(args.out, "x", encoding="utf-8", newline="\n") as out:
            out.writelines(line + "\n" for line in kept)
    except (OSError, ValueError) as error:
        sys.exit("cut_trace.py: %s" % error)


if __name__ == "__main__":
    main()
