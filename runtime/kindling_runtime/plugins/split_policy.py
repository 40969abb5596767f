"""Into how many pieces FlashAttention 4 cuts the KV cache of a request on Hopper.

The kernel gives each piece of each KV head of each request to one block of threads. Measured on one
H200 (SM90, 132 multiprocessors; bf16, heads of 128, contexts of 8K to 1M), it is fastest with about
as many blocks as the chip runs at once, and still faster with 4 to 8 pieces than with one where the
heads and requests alone are 32 blocks or more: those split further balance unequal contexts.
"""

WAVE = 128
"""Blocks that are wanted at once: the power of two below the multiprocessors of an H100 or H200."""
MOST = 128
"""Pieces that were measured; the kernel that adds them up takes 256."""
FEWEST = 4
"""Pieces of a request that decodes, however many are beside it."""
TILE_ROWS = 128
"""Rows that one block works on: query tokens of all query heads that share a KV head (FA4)."""
TILE_KEYS = 128
"""Tokens of the KV cache that one step of a block reads; a piece below it would be empty."""
PARTIAL_ROWS = 131_072
"""Rows of float32 results that may wait to be added up: 64 MiB with heads of 128."""


def split_count(*, batch: int, query: int, heads: int, kv_heads: int, keys: int) -> int:
    """Pieces for `batch` requests of `query` tokens each, over at most `keys` tokens of context.

    A power of two from 1 to MOST, so that few kernels are compiled. It depends on nothing that
    changes between two replays of a CUDA graph: `keys` is the longest context that the engine
    allows, and a shorter one leaves pieces empty. `heads` and `kv_heads` are those of one rank.
    """
    tiles = _ceil(query * (heads // kv_heads), TILE_ROWS)
    wanted = WAVE // (batch * kv_heads * tiles)
    if tiles == 1:
        wanted = max(wanted, FEWEST)
    allowed = min(MOST, _ceil(keys, TILE_KEYS), PARTIAL_ROWS // (batch * query * heads))
    return _power_of_two(max(1, min(wanted, allowed)))


def _ceil(amount: int, step: int) -> int:
    return (amount + step - 1) // step


def _power_of_two(number: int) -> int:
    """The largest one that is not above `number`."""
    return 1 << (number.bit_length() - 1)
