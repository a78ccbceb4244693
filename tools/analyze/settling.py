"""From which token on a run is in its steady state."""

import statistics

BLOCK = 16  # tokens: enough lookups for a hit rate, and few enough to see it climb
FIRST_TOKENS = 8  # always discarded: caches of the processor, thread pool and clock rates start too
POINT = 0.02  # of the hit rate: less is no climb worth a verdict


def block_rates(hits, misses):
    """Hit rate of each whole block of tokens; empty where nothing was looked up."""
    rates = []
    for begin in range(0, len(hits) - BLOCK + 1, BLOCK):
        hit, miss = sum(hits[begin:begin + BLOCK]), sum(misses[begin:begin + BLOCK])
        if hit < 0 or miss < 0 or hit + miss == 0:
            return []
        rates.append(hit / (hit + miss))
    return rates


def warm_up(rates, steps):
    """(tokens to discard, why). The rule: up to the first block whose hit rate is as high as those of the second half, less their
    usual spread; at most half of the run."""
    least = min(FIRST_TOKENS, steps // 2)
    if len(rates) < 4:
        return least, "first tokens"
    half = rates[len(rates) // 2:]
    wanted = statistics.fmean(half) - max(POINT, 2 * statistics.stdev(half))
    for block, rate in enumerate(rates[:len(rates) // 2]):
        if rate >= wanted:
            return max(least, block * BLOCK), "first tokens" if block == 0 else "until the hit rate settled"
    return len(rates) // 2 * BLOCK, "half of the run, the hit rate settled no earlier"


def climb(rates):
    """(third quarter, last quarter, whether the hit rate still climbed from the one to the other): by more than a point and more
    than chance. None where the run is too short to tell."""
    quarter = len(rates) // 4
    if quarter < 2:
        return None
    third, last = rates[-2 * quarter:-quarter], rates[-quarter:]
    error = ((statistics.variance(third) + statistics.variance(last)) / quarter) ** 0.5
    before, after = statistics.fmean(third), statistics.fmean(last)
    return before, after, after - before > max(POINT, 2 * error)
