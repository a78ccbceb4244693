"""Quantised blocks of random values with a given standard deviation, and constant ones.

random_blocks(): random bytes whose scales are then set. A deviation of 0 gives a block of zeros."""
import numpy as np
from .container import BLOCK, MXFP4, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0


def half(values):
    """f16, as bytes in a last axis"""
    return np.asarray(values).astype("<f2")[..., None].view(np.uint8)


def exact(x):
    """x to 6 bits, so that 7.5 and 15.5 times it are exact in f16"""
    m, e = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.round(m * 64) / 64, e)


def scale_tables(seed=7):
    """Packed rows of 6-bit scales for Q4_K and Q5_K, each equal to its minimum: a block then has mean 0 where dmin is d times
    the middle of the quants. And rows of signed 8-bit scales for Q6_K. With each its root mean square."""
    r = np.random.default_rng(seed)
    n = 4096
    sc = r.integers(33, 64, size=(n, 8)).astype(np.uint8)
    packed = np.zeros((n, 12), np.uint8)
    packed[:, 0:4] = (sc[:, 0:4] & 63) | ((sc[:, 4:8] >> 4) << 6)
    packed[:, 4:8] = packed[:, 0:4]
    packed[:, 8:12] = (sc[:, 4:8] & 15) | ((sc[:, 4:8] & 15) << 4)
    s6 = r.integers(40, 89, size=(n, 16)).astype(np.int8)
    s6 *= np.where(r.random((n, 16)) < 0.5, -1, 1).astype(np.int8)
    rms = lambda x: float(np.sqrt((x.astype(np.float64) ** 2).mean()))
    return packed, rms(sc), s6.view(np.uint8), rms(s6)


SCALES_45, RMS_45, SCALES_6, RMS_6 = scale_tables()


def with_minimum(a, sigma, levels):
    middle = (levels - 1) / 2
    d = exact(sigma / (RMS_45 * np.sqrt((levels ** 2 - 1) / 12)))
    a[:, :, 0:2] = half(d)
    a[:, :, 2:4] = half(middle * d)
    pick = (a[:, :, 4].astype(np.int32) << 4) ^ a[:, :, 5]
    a[:, :, 4:16] = SCALES_45[pick & 4095]


def q6_k(a, sigma):
    pick = (a[:, :, 192].astype(np.int32) << 4) ^ a[:, :, 193]
    a[:, :, 192:208] = SCALES_6[pick & 4095]
    a[:, :, 208:210] = half(sigma / (RMS_6 * 18.47))


def one_scale(a, sigma, levels, rng):
    """Q5_0, Q8_0: quants from -levels/2 to levels/2 - 1, whose mean of -1/2 a random sign undoes."""
    sign = np.where(rng.random(a.shape[:2]) < 0.5, -1, 1)
    a[:, :, 0:2] = half(sign * sigma / np.sqrt((levels ** 2 + 2) / 12))


def mxfp4(a, sigma, rng):
    """The scale is a power of two: the one below or above at random, so that the mean square is right."""
    rms = np.sqrt(np.mean(np.square([0, 0.5, 1, 1.5, 2, 3, 4, 6])))
    zero = np.broadcast_to(sigma == 0, a.shape[:2])
    wanted = np.broadcast_to(np.where(sigma == 0, 1, sigma) / rms, a.shape[:2])
    below = np.floor(np.log2(wanted))
    up = rng.random(a.shape[:2]) < (np.square(wanted / 2.0 ** below) - 1) / 3
    a[:, :, 0] = 127 + below + up
    a[zero] = 0


def random_blocks(type_, rng, n_rows, sigma):
    """sigma: (n_rows or 1, blocks in a row). Returns bytes, (n_rows, blocks in a row, bytes of a block)."""
    size = BLOCK[type_][1]
    sigma = np.broadcast_to(sigma, (n_rows, sigma.shape[-1]))
    shape = (*sigma.shape, size)
    a = np.frombuffer(bytearray(rng.bytes(int(np.prod(shape)))), np.uint8).reshape(shape)
    if type_ in (Q4_K, Q5_K):
        with_minimum(a, sigma, 16 if type_ == Q4_K else 32)
    elif type_ == Q6_K:
        q6_k(a, sigma)
    elif type_ in (Q5_0, Q8_0):
        one_scale(a, sigma, 32 if type_ == Q5_0 else 256, rng)
    else:
        assert type_ == MXFP4
        mxfp4(a, sigma, rng)
    return a


def constant_block(type_, w):
    """One block, every value of which is about w > 0."""
    b = np.zeros(BLOCK[type_][1], np.uint8)
    if type_ == Q4_K:       # quants 12, scales 48, minimum 0
        b[16:], b[4:8], b[8:12], b[12:16] = 0xCC, 48 | (48 >> 4) << 6, (48 >> 4) << 6, 48 & 15
        b[0:2] = half(w / (12 * 48))
    elif type_ == Q6_K:     # quants 48 - 32, scales 16
        b[128:192], b[192:208] = 0xFF, 16
        b[208:210] = half(w / (16 * 16))
    elif type_ == Q8_0:
        b[2:] = 100
        b[0:2] = half(w / 100)
    else:                   # quants 31 - 16
        assert type_ == Q5_0
        b[2:] = 0xFF
        b[0:2] = half(w / 15)
    return b
