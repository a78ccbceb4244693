"""Which layers get more bits: the rule of llama-quantize's Q4_K_M."""


def more_bits(i, n):
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2
