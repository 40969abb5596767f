"""What a store says, in a sentence for people."""


def short(error: BaseException | str) -> str:
    """What an error says, on one line that fits into a sentence."""
    # obstore repeats itself at length below its first lines.
    text = " ".join(str(error).partition("Debug source:")[0].split()) or type(error).__name__
    return text if len(text) <= 240 else text[:239] + "…"
