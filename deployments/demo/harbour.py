"""The text of the demo's dataset: days in a harbour's log, put together from templates by a seeded draw."""

import random
from collections.abc import Iterator

_SHIPS = (
    "Albatross", "Bonny Jean", "Corvina", "Dagny", "Endeavour", "Fair Isle", "Guldborg", "Halcyon",
    "Isabella", "Kittiwake", "Lady Ann", "Merganser", "Northern Light", "Ocean Pearl", "Petrel",
    "Queen of Leith", "Resolute", "Sea Otter", "Tern", "Valiant",
)  # fmt: skip
_KINDS = (
    "trawler",
    "schooner",
    "barge",
    "tanker",
    "ferry",
    "tug",
    "ketch",
    "freighter",
    "pilot boat",
    "dredger",
)
_PORTS = (
    "Bergen", "Leith", "Aberdeen", "Rotterdam", "Hamburg", "Esbjerg", "Gdansk", "Antwerp", "Hull", "Lisbon",
    "Cork", "Stavanger",
)  # fmt: skip
_CARGO = ("timber", "salt", "herring", "coal", "grain", "slate", "wool", "cement", "oranges", "machine parts")
_WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
_FORCES = ("a light breeze", "a fresh breeze", "a moderate breeze", "a strong breeze", "a near gale")
_WORK = (
    "scraped and painted below the waterline", "fitted with a new rudder", "caulked along the keel",
    "given new planking on the port side", "surveyed by the harbour master",
    "launched from the slipway at high water",
)  # fmt: skip
_PEOPLE = (
    "the harbour master",
    "the pilot",
    "the shipwright",
    "the customs officer",
    "the lock keeper",
    "the mate",
)


def documents(seed: int, count: int) -> Iterator[str]:
    """Yield `count` texts of four to six sentences, the same for one seed on every machine and Python."""
    # only random() keeps its sequence across Python versions
    source = random.Random(seed)  # noqa: S311 - text for a demo, no secret

    def pick(words: tuple[str, ...]) -> str:
        return words[int(source.random() * len(words))]

    def number(low: int, high: int) -> int:
        return low + int(source.random() * (high - low + 1))

    def sentence() -> str:
        ship, kind = pick(_SHIPS), pick(_KINDS)
        templates = (
            f"The {kind} {ship} came in from {pick(_PORTS)} with {number(2, 90)}0 tons of {pick(_CARGO)}.",
            f"The {kind} {ship} put out for {pick(_PORTS)} on the ebb, with {number(3, 40)} hands on board.",
            f"In the dry dock the {kind} {ship} was {pick(_WORK)}.",
            f"The wind was {pick(_FORCES)} from the {pick(_WINDS)}, and the {ship} stayed at her moorings.",
            f"At {number(1, 12)} bells {pick(_PEOPLE)} went on board the {ship} at berth {number(1, 24)}.",
            f"The {ship} lay at anchor in the roads, waiting for the tide and for {pick(_PEOPLE)}.",
        )
        return templates[int(source.random() * len(templates))]

    for _ in range(count):
        yield " ".join(sentence() for _ in range(number(4, 6)))
