"""The GGUF container: metadata, the table of tensors, where their data begins."""
import math, struct
import numpy as np

F32, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4 = 0, 6, 8, 12, 13, 14, 39
NAMES = {F32: "F32", Q5_0: "Q5_0", Q8_0: "Q8_0", Q4_K: "Q4_K", Q5_K: "Q5_K", Q6_K: "Q6_K", MXFP4: "MXFP4"}
# values in a block, bytes of a block
BLOCK = {F32: (1, 4), Q5_0: (32, 22), Q8_0: (32, 34), Q4_K: (256, 144), Q5_K: (256, 176), Q6_K: (256, 210),
         MXFP4: (32, 17)}


class Tensor:
    """values(rng) yields the data in pieces: arrays whose bytes are the file's."""
    def __init__(self, name, ne, type_, values):
        self.name, self.ne, self.type, self.values = name, ne, type_, values
        self.layer = int(name.split(".")[1]) if name.startswith("blk.") else -1
        self.offset = 0     # set by header()

    def nbytes(self):
        values, size = BLOCK[self.type]
        if self.ne[0] % values:
            raise ValueError("%s: rows of %d values are not whole %s blocks of %d: choose another size"
                             % (self.name, self.ne[0], NAMES[self.type], values))
        return math.prod(self.ne) // values * size


def string(text):
    text = text.encode("utf-8")
    return struct.pack("<Q", len(text)) + text


def array(values):
    if isinstance(values[0], str):
        return struct.pack("<IQ", 8, len(values)) + b"".join(string(v) for v in values)
    if isinstance(values[0], bool):
        return struct.pack("<IQ", 7, len(values)) + bytes(values)
    return struct.pack("<IQ", 5, len(values)) + np.asarray(values, "<i4").tobytes()


def key_value(key, value):
    if isinstance(value, bool):
        return string(key) + struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return string(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return string(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return string(key) + struct.pack("<I", 8) + string(value)
    if isinstance(value, list):
        return string(key) + struct.pack("<I", 9) + array(value)
    raise TypeError(key)


def header(metadata, tensors, align=32):
    """The header's bytes, and how many bytes of data follow it."""
    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    out += [key_value(key, value) for key, value in metadata]
    offset = 0
    for t in tensors:
        t.offset = offset
        out.append(string(t.name) + struct.pack("<I", len(t.ne)) + struct.pack("<%dQ" % len(t.ne), *t.ne)
                   + struct.pack("<IQ", t.type, offset))
        offset += (t.nbytes() + align - 1) // align * align
    packed = b"".join(out)
    return packed + b"\0" * (-len(packed) % align), offset
