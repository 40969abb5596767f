"""Which chunks of a prompt a store has, with few questions in few rounds.

A question is whether an object exists, and how large it is, which tells how many chunks it has. All
questions of a round are asked at once.

* Groups whose attention reaches back without end are stored from the beginning on, so an object
  that exists stands for those before it. The farthest is looked for at 16 places at once: one round
  finds a prompt that is there as a whole, two or three the end of what is shared of 100,000 tokens.
* Where a chain is packed, the object in which a shared prefix ends is named by a chunk that the
  other prompt did not have: all chunks of that object are asked for.
* Groups with a window are stored at the ends of prompts only. They are looked through from the end
  of what the other groups have, a few windows at a time.

What is taken to exist without a question may be missing after all: then its load fails, which costs
a recompute and no more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

LADDER: Final = 16
"""Questions of a round about a group without a window."""
MOST_QUESTIONS: Final = 256
"""About one group of one prompt; what is still unknown then counts as missing."""

Known = Callable[[bytes], int | None]
"""How many chunks the object of an anchor has, 0 for none; None where that must be asked."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The chunks of one group of a prompt, from its beginning, of `tokens` each; `window` in
    chunks, None without."""

    group: int
    tokens: int
    keys: tuple[bytes, ...]
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Whether the object exists that is named by this chunk."""

    group: int
    index: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk lies in the object with that anchor, `back` places before it."""

    anchor: bytes
    back: int


@dataclass(slots=True)
class _Known:
    """What is known of a chain: anchors with the count of their object, 0 where there is none."""

    chain: Chain
    slots: int
    counts: dict[int, int] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    questions: int = 0

    def __len__(self) -> int:
        return len(self.chain.keys)

    @property
    def objects(self) -> int:
        """How many the chain would fill, the last one perhaps in part."""
        return -(-len(self) // self.slots)

    def anchor(self, number: int) -> int:
        """Of an object that holds all chunks between two cuts."""
        return min((number + 1) * self.slots, len(self)) - 1

    def tell(self, index: int, count: int) -> None:
        """The answer about an anchor; no object reaches across a cut."""
        self.asked.add(index)
        self.counts[index] = min(count, index % self.slots + 1)

    def ask(self, indexes: Iterable[int], known: Known) -> list[Question]:
        """Questions about those anchors of which nothing is known."""
        questions = []
        for index in indexes:
            if index in self.asked or self.questions >= MOST_QUESTIONS:
                continue
            self.asked.add(index)
            key = self.chain.keys[index]
            if (count := known(key)) is not None:
                self.tell(index, count)
            else:
                self.questions += 1
                questions.append(Question(self.chain.group, index, key))
        return questions

    def holder(self, index: int) -> int | None:
        """The anchor of an object that is known to have a chunk."""
        for anchor in range(index, self.anchor(index // self.slots) + 1):
            if anchor - self.counts.get(anchor, 0) < index:
                return anchor
        return None


@dataclass(slots=True)
class _Prefix:
    """The search in a group without a window: the object `low` exists, and so, it is taken, do
    those before it; `high` is the first that does not."""

    found: _Known
    low: int = -1
    high: int = 0
    begun: bool = False

    def round(self, known: Known) -> list[Question]:
        """The next questions; none once the end is known."""
        if not self.begun:
            self._begin(known)
        while self._settle():
            before = len(self.found.counts)
            if questions := self.found.ask(self._ladder(), known):
                return questions
            if len(self.found.counts) == before:
                break
        return self.found.ask(self._around(), known)

    def _begin(self, known: Known) -> None:
        """With what this pod knows already."""
        self.begun = True
        for number in range(self.found.objects):
            anchor = self.found.anchor(number)
            if (count := known(self.found.chain.keys[anchor])) is not None:
                self.found.tell(anchor, count)

    def _settle(self) -> bool:
        """Take the answers in; whether there are objects left between the two bounds."""
        numbers = {
            index // self.found.slots: count
            for index, count in self.found.counts.items()
            if index == self.found.anchor(index // self.found.slots)
        }
        self.high = min((n for n, c in numbers.items() if not c), default=self.found.objects)
        self.low = max((n for n, c in numbers.items() if c and n < self.high), default=-1)
        return self.high - self.low > 1

    def _ladder(self) -> Iterator[int]:
        """The next anchor, and others spread evenly between the bounds; with the last of all, as
        long as none is known to be missing."""
        yield self.found.anchor(self.low + 1)
        open_end = self.high == self.found.objects
        steps = min(LADDER - 1, self.high - self.low - 1)
        length = self.high - self.low - open_end
        for step in range(1, steps + 1):
            yield self.found.anchor(self.low + -(-length * step // (steps + 1 - open_end)))

    def _around(self) -> Iterator[int]:
        """All chunks of the object in which the prefix ends, and those that objects lack."""
        slots = self.found.slots
        for number in range(min(self.high, self.found.objects - 1) + 1):
            anchor = self.found.anchor(number)
            if number == self.high or self.found.counts.get(anchor):
                for index in range(anchor, number * slots - 1, -1):
                    if self.found.holder(index) is None:
                        yield index

    def holders(self) -> dict[int, int]:
        """The anchor for each chunk from the beginning, up to the first that is not there."""
        found: dict[int, int] = {}
        for index in range(len(self.found)):
            number = index // self.found.slots
            anchor = self.found.anchor(number)
            taken = number < self.low and anchor not in self.found.counts
            holder = anchor if taken else self.found.holder(index)
            if holder is None:
                break
            found[index] = holder
        return found


@dataclass(slots=True)
class _Tails:
    """The search in a group with a window: what lies between `low` and the end was asked for."""

    found: _Known
    low: int
    span: int

    def round(self, end: int, known: Known) -> list[Question]:
        """The next questions, going down from `end` chunks until a whole window is there."""
        self.low = min(self.low, end)
        while self.low > 0 and not self._has_window(end):
            below = max(0, self.low - self.span)
            questions = self.found.ask(range(self.low - 1, below - 1, -1), known)
            self.low, self.span = below, 2 * self.span
            if questions:
                return questions
        return []

    def _has_window(self, end: int) -> bool:
        """With one chunk more below: a draft's layers want it."""
        need = min(self.found.chain.window or 1, end)
        row = 0
        for index in range(end - 1, self.low, -1):
            row = row + 1 if self.found.holder(index) is not None else 0
            if row >= need:
                return True
        return False


class Search:
    """The search for one prompt: ask what `round` gives, tell the answers, until it gives none."""

    def __init__(self, chains: Sequence[Chain], slots: int, known: Known) -> None:
        self._known = known
        self._found = {chain.group: _Known(chain, slots) for chain in chains}
        self._prefixes = [_Prefix(each) for each in self._found.values() if not each.chain.window]
        self._tails = [
            _Tails(each, len(each), 2 * each.chain.window + slots)
            for each in self._found.values()
            if each.chain.window
        ]
        self._guessed = False
        self._tokens: int | None = None

    def round(self) -> tuple[Question, ...]:
        """Questions to be asked at once; none when all is known."""
        asked: list[Question] = []
        if self._tokens is None:
            asked = [each for prefix in self._prefixes for each in prefix.round(self._known)]
            if not asked:
                self._tokens = self._reach()
        if self._tokens is not None:
            for tails in self._tails:
                asked += tails.round(_ends(tails, self._tokens), self._known)
        elif not self._guessed:
            # Most prompts that are there at all are there to their end.
            for tails in self._tails:
                asked += tails.round(len(tails.found), self._known)
        self._guessed = True
        return tuple(asked)

    def answer(self, question: Question, count: int | None) -> None:
        """An object has so many chunks; None where there is none."""
        self._found[question.group].tell(question.index, count or 0)

    @property
    def tokens(self) -> int:
        """From the beginning, that the groups without a window have; after the last round."""
        return self._tokens or 0

    def sources(self) -> Mapping[bytes, Source]:
        """Every chunk that is there and of use, by its key; after the last round."""
        found: dict[bytes, Source] = {}
        for prefix in self._prefixes:
            _list(prefix.found, prefix.holders(), self.tokens, found)
        for tails in self._tails:
            indexes = range(tails.low, min(len(tails.found), _ends(tails, self.tokens)))
            held = {each: tails.found.holder(each) for each in indexes}
            there = {index: anchor for index, anchor in held.items() if anchor is not None}
            _list(tails.found, there, self.tokens, found)
        return found

    def _reach(self) -> int:
        if not self._prefixes:
            return max((len(each) * each.chain.tokens for each in self._found.values()), default=0)
        return min(len(each.holders()) * each.found.chain.tokens for each in self._prefixes)


def _ends(tails: _Tails, tokens: int) -> int:
    """How many chunks are of use: a draft's layers are asked for one beyond."""
    return min(len(tails.found), tokens // tails.found.chain.tokens + 1) if tokens else 0


def _list(found: _Known, holders: Mapping[int, int], tokens: int, to: dict[bytes, Source]) -> None:
    keys, each = found.chain.keys, found.chain.tokens
    for index, anchor in holders.items():
        if index * each < tokens + each:
            to[keys[index]] = Source(keys[anchor], anchor - index)
