"""The entries of an encyclopedia of the country: each says the facts of one thing and no others, so that some questions need two entries."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_envs.searchqa.make.country import WORK_KINDS, Building, Country, Mountain, Person, Province, River, Town, Work
from agentgym_envs.searchqa.make.draw import Draw
from agentgym_envs.searchqa.passages import Passage

_WEATHER = (
    "Winters there are long and dry.",
    "Fog is common in spring.",
    "Most visitors come in the autumn.",
    "A market is held on the first day of every month.",
    "Storks nest on many of the roofs.",
    "The old walls were taken down long ago.",
)
_LIVES = (
    "Little is known of the early years.",
    "Letters from that time were lost in a fire.",
    "A street is named after the family.",
    "The portrait on the old banknotes is a good likeness.",
)
_MADE = (
    "Critics were divided at first.",
    "It was paid for by subscription.",
    "A copy is shown every summer.",
    "School classes know it well.",
)


def entries(country: Country, seed: str) -> Iterator[Passage]:
    """All of them, by kind."""
    draw = Draw(seed)
    yield from (Passage(each.name, _province(each)) for each in country.provinces)
    yield from (Passage(each.name, _mountain(each)) for each in country.mountains)
    yield from (Passage(each.name, _river(each, draw)) for each in country.rivers)
    yield from (Passage(each.name, _town(each, draw)) for each in country.towns)
    yield from (Passage(each.name, _person(each, draw)) for each in country.people)
    yield from (Passage(each.name, _work(each, draw)) for each in country.works)
    yield from (Passage(each.name, _building(each, draw)) for each in country.buildings)


def _province(it: Province) -> str:
    return f"{it.name} is a province on the coast of the {it.sea}. Its capital is {it.capital}, and its flag shows {it.flag}."


def _mountain(it: Mountain) -> str:
    return f"{it.name} is a mountain in {it.province}, {it.metres} metres high. It was first climbed by {it.climber}."


def _river(it: River, draw: Draw) -> str:
    first = draw.pick(
        f"{it.name}/first",
        (
            f"The {it.name} is a river of {it.kilometres} kilometres that rises on {it.mountain} and empties into the {it.sea}.",
            f"Rising on {it.mountain}, the river {it.name} runs for {it.kilometres} kilometres before it empties into the {it.sea}.",
        ),
    )
    return f"{first} Barges used it until the railway came."


def _town(it: Town, draw: Draw) -> str:
    first = draw.pick(
        f"{it.name}/first",
        (
            f"{it.name} is a town in the province of {it.province}, on the river {it.river}.",
            f"The town of {it.name} lies on the river {it.river} in {it.province}.",
        ),
    )
    return f"{first} It was founded in {it.founded} by {it.founder} and is known for its {it.good}. {draw.pick(f'{it.name}/weather', _WEATHER)}"


def _person(it: Person, draw: Draw) -> str:
    article = "an" if it.craft[0] in "aeiou" else "a"
    first = draw.pick(
        f"{it.name}/first",
        (
            f"{it.name} was {article} {it.craft}, born in {it.town} in {it.born}.",
            f"Born in {it.town} in {it.born}, {it.name} became {article} {it.craft}.",
        ),
    )
    return f"{first} The training took seven years, under {it.teacher}. {draw.pick(f'{it.name}/life', _LIVES)}"


def _work(it: Work, draw: Draw) -> str:
    did, _ = WORK_KINDS[it.kind]
    article = "an" if it.kind[0] in "aeiou" else "a"
    return f"{it.name} is {article} {it.kind} that {it.maker} {did} in {it.year}. {draw.pick(f'{it.name}/made', _MADE)}"


def _building(it: Building, draw: Draw) -> str:
    return f"The {it.name} is a {it.kind} in {it.town}, designed by {it.architect} and finished in {it.year}. {draw.pick(f'{it.name}/made', _MADE)}"
