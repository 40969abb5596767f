"""When index and API server differ for too long, and in which way."""

from kindling_operator.observe.audit import Findings, Seen, Suspect, judge

GRACE = 30.0


def look(
    indexed: dict[str, str],
    listed: dict[str, str],
    before: Findings | None = None,
    *,
    now: float,
    complete: bool = True,
) -> Findings:
    return judge(
        {uid: Seen(version, None) for uid, version in indexed.items()},
        {uid: Seen(version, None) for uid, version in listed.items()},
        before.suspects if before is not None else {},
        complete=complete,
        now=now,
        grace=GRACE,
    )


def nothing(findings: Findings) -> bool:
    return not (findings.gone or findings.missed or findings.outdated)


def test_equal_sides_leave_no_suspect() -> None:
    assert look({"a": "1"}, {"a": "1"}, now=0) == Findings({})


def test_a_difference_is_a_suspect_first() -> None:
    found = look({"a": "1"}, {"a": "2"}, now=0)

    assert found.suspects == {"a": Suspect(0, "1")}
    assert nothing(found)


def test_what_only_the_index_still_has_is_gone() -> None:
    first = look({"a": "1"}, {}, now=0)

    assert look({"a": "1"}, {}, first, now=GRACE).gone == ("a",)


def test_what_the_index_has_never_seen_was_missed() -> None:
    first = look({}, {"a": "1"}, now=0)

    assert look({}, {"a": "1"}, first, now=GRACE).missed == ("a",)


def test_an_index_that_stands_still_is_outdated() -> None:
    first = look({"a": "1"}, {"a": "2"}, now=0)

    assert look({"a": "1"}, {"a": "9"}, first, now=GRACE).outdated == ("a",)


def test_an_index_that_moves_is_merely_late() -> None:
    first = look({"a": "1"}, {"a": "2"}, now=0)
    second = look({"a": "2"}, {"a": "3"}, first, now=GRACE)

    assert nothing(second)
    assert second.suspects == {"a": Suspect(GRACE, "2")}


def test_a_difference_that_ends_is_forgotten() -> None:
    first = look({"a": "1"}, {"a": "2"}, now=0)
    second = look({"a": "2"}, {"a": "2"}, first, now=10)
    third = look({"a": "2"}, {"a": "3"}, second, now=GRACE)

    assert second.suspects == {}
    assert nothing(third)


def test_of_a_kind_that_is_indexed_in_part_nothing_can_be_missed() -> None:
    first = look({"ghost": ""}, {"foreign": ""}, now=0, complete=False)
    second = look({"ghost": ""}, {"foreign": ""}, first, now=GRACE, complete=False)

    assert second.gone == ("ghost",)
    assert second.missed == ()
