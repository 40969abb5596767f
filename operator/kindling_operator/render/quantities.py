"""Quantities as the API server writes them back, so that equal means equal.

It reduces every quantity to the largest suffix without a fraction (apimachinery, resource.Quantity:
CanonicalizeBytes).
"""

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("m", "", "k", "M", "G")
_MIB = 1 << 20


def memory_quantity(count: int) -> str:
    """Bytes, rounded up to whole MiB: ``5Gi``, ``4616Mi``."""
    return _reduced(-(-count // _MIB), base=1024, suffixes=_BINARY[2:])


def cpu_quantity(millis: int) -> str:
    """Millicores: ``500m``, ``4``."""
    return _reduced(millis, base=1000, suffixes=_DECIMAL)


def _reduced(number: int, *, base: int, suffixes: tuple[str, ...]) -> str:
    place = 0
    while number and number % base == 0 and place + 1 < len(suffixes):
        number, place = number // base, place + 1
    return f"{number}{suffixes[place]}"
