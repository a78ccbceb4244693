"""Weights that all shapes are made of. The residual stream has three parts (make_synth.py says what for):

  U = [0, NU)   C = [NU, NU + NC)   Z = the rest"""
import numpy as np
from .blocks import constant_block, random_blocks
from .container import BLOCK, F32, Tensor

NU, NC = 256, 512
CTX_STEP, FFN_STEP = 0.15, 0.15      # intended RMS that a layer adds to C and Z
CHUNK = 8192                         # rows of a vocabulary's matrix at a time


def columns(type_, n, first, sigma):
    """The deviations of a row's blocks: 0 before column `first`."""
    values = BLOCK[type_][0]
    row = np.zeros((1, n // values))
    row[:, first // values:] = sigma
    return row


def f32(name, ne, values):
    """An F32 tensor of values(rng)."""
    return Tensor(name, ne, F32, lambda rng: [np.asarray(values(rng), np.float32)])


def same(name, n, value=1.0):
    return f32(name, [n], lambda rng: np.full(n, value))


def noise(name, ne, deviation, first=0, end=None):
    """An F32 tensor, normal in columns [first, end) and 0 in others."""
    def values(rng):
        w = np.zeros(ne[::-1])
        w[..., first:end] = deviation * rng.standard_normal(w[..., first:end].shape)
        return w
    return f32(name, ne, values)


def router_input(c, l, calib):
    """RMS of the U, C and Z parts of a router's normalised input: measured, or as intended."""
    if calib:
        return calib[l]["u"], max(calib[l]["c"], 1e-3), calib[l]["z"]
    cc, z = (l + 1) * CTX_STEP ** 2, 1.0 + l * FFN_STEP ** 2     # mean squares; that of U is 1
    rms = ((NU + NC * cc + (c.embd - NU - NC) * z) / c.embd) ** .5
    return 1 / rms, cc ** .5 / rms, z ** .5 / rms


class Weights:
    """c: the configuration (dimensions, seed, gains of the routers, calib); rows of the vocabulary from first_special on are
    never generated."""
    def __init__(self, c, first_special):
        if c.embd <= NU + NC:
            raise ValueError("--embd %d: must be more than %d" % (c.embd, NU + NC))
        self.c, self.first_special = c, first_special
        self.nz = c.embd - NU - NC

    def vocabulary(self, name, type_, sigma, specials, constant=0.0):
        """A row for each token. sigma: of a row's blocks; specials: whether special tokens have values too; constant: in U"""
        ne = [self.c.embd, self.c.vocab]
        def values(rng):
            for r0 in range(0, ne[1], CHUNK):
                n = min(CHUNK, ne[1] - r0)
                s = np.repeat(sigma, n, axis=0)
                if not specials:
                    s[max(0, self.first_special - r0):] = 0
                a = random_blocks(type_, rng, n, s)
                if constant:
                    a[:, :NU // BLOCK[type_][0]] = constant_block(type_, constant)
                yield a
        return Tensor(name, ne, type_, values)

    def embedding(self, name, type_, sigma=1.0, specials=True, faint=0):
        """faint: so many of the last columns have a tenth of the deviation"""
        of_row = columns(type_, self.c.embd, NU + NC, sigma)
        of_row[:, (self.c.embd - faint) // BLOCK[type_][0]:] *= 0.1
        return self.vocabulary(name, type_, of_row, specials, constant=sigma)

    def output(self, name, type_):
        return self.vocabulary(name, type_, columns(type_, self.c.embd, 0, 1.5 / np.sqrt(self.nz)), specials=False)

    def output_norm(self, values=lambda rng, n: np.ones(n)):
        """U and C are no part of the next token."""
        def masked(rng):
            w = np.zeros(self.c.embd)
            w[NU + NC:] = values(rng, self.nz)
            return w
        return f32("output_norm.weight", [self.c.embd], masked)

    def from_token(self, name, type_, n, sigma, constant_rows=None):
        """A matrix that reads Z; constant_rows also have the sum of U."""
        def values(rng):
            a = random_blocks(type_, rng, n, columns(type_, self.c.embd, NU + NC, sigma / np.sqrt(self.nz)))
            if constant_rows is not None:
                for b in range(NU // BLOCK[type_][0]):
                    a[constant_rows, b] = constant_block(type_, 1.0 / NU)
            return [a]
        return Tensor(name, [self.c.embd, n], type_, values)

    def query_or_key(self, name, type_, heads, head_dim):
        """The first half of the rotary pairs has a constant: the score is a function of distance, plus noise."""
        n = heads * head_dim
        return self.from_token(name, type_, n, 0.5, np.arange(n) % head_dim < head_dim // 2)

    def to_context(self, name, type_, n, sigma):
        """A matrix that writes C. sigma: a number or one for each block of a row"""
        def values(rng):
            s = np.zeros((self.c.embd, n // BLOCK[type_][0]))
            s[NU:NU + NC] = sigma
            return [random_blocks(type_, rng, self.c.embd, s)]
        return Tensor(name, [n, self.c.embd], type_, values)

    def expert_inputs(self, name, type_, n, experts):
        """Matrices that read C and Z, one for each expert."""
        def values(rng):
            for _ in range(experts or 1):
                sigma = rng.uniform(.9, 1.1) / np.sqrt(self.c.embd - NU)
                yield random_blocks(type_, rng, n, columns(type_, self.c.embd, NU, sigma))
        return Tensor(name, [self.c.embd, n] + [experts] * bool(experts), type_, values)

    def expert_outputs(self, name, type_, n, experts, inner_rms):
        """Matrices that write Z, one for each expert. inner_rms: of what they are multiplied with, with the weighted sum
        over experts taken into account"""
        def values(rng):
            for _ in range(experts or 1):
                s = np.zeros((self.c.embd, n // BLOCK[type_][0]))
                s[NU + NC:] = rng.uniform(.9, 1.1) * FFN_STEP / (inner_rms * np.sqrt(n))
                yield random_blocks(type_, rng, self.c.embd, s)
        return Tensor(name, [n, self.c.embd] + [experts] * bool(experts), type_, values)

    def router(self, l):
        c = self.c
        def values(_):
            r = np.random.default_rng([c.seed, 1000 + l])
            u, cc, z = router_input(c, l, c.calib)
            w = np.empty((c.experts, c.embd), np.float32)
            w[:, :NU] = (c.gain * c.sb * r.standard_normal(c.experts) / (NU * u))[:, None]
            w[:, NU:NU + NC] = r.standard_normal((c.experts, NC)) * (c.gain * c.sc / (np.sqrt(NC) * cc))
            w[:, NU + NC:] = r.standard_normal((c.experts, self.nz)) * (c.gain * c.sz / (np.sqrt(self.nz) * z))
            return w
        return f32("blk.%d.ffn_gate_inp.weight" % l, [c.embd, c.experts], values)
