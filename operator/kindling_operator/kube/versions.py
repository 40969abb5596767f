"""Resource versions: when one look at an object is at least as new as another."""


def at_least(seen: str, wanted: str) -> bool:
    """Whether `seen` is `wanted` or newer; "" is older than everything.

    Resource versions of one kind can be compared as integers (KEP-5504, and so it always was with
    etcd); where a server has others, only equality counts.
    """
    if seen.isdecimal() and wanted.isdecimal():
        return int(seen) >= int(wanted)
    return seen == wanted
