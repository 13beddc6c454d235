"""Questions about the country: those that one entry answers, those that need a second entry which the first one names, and comparisons of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from agentgym_envs.searchqa.make.country import WORK_KINDS, Country, Mountain, Person, Province, River, Town
from agentgym_envs.searchqa.make.draw import Draw

ONE, TWO, COMPARED = "one hop", "two hops", "comparison"
_COUNTS = {ONE: 46, TWO: 66, COMPARED: 8}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its answer, and the titles of the entries that answer it, in the order in which they are found."""

    text: str
    answer: str
    titles: tuple[str, ...]
    category: str


def questions(country: Country, seed: str) -> list[Asked]:
    """The chosen ones; no two have the same text."""
    draw = Draw(seed)
    kinds = {ONE: list(_one_hop(country)), TWO: list(_Two(country).questions()), COMPARED: list(_compared(country))}
    chosen = [asked for kind, count in _COUNTS.items() for asked in draw.shuffled(kind, kinds[kind])[:count]]
    return draw.shuffled("order", chosen)


def _one_hop(country: Country) -> Iterator[Asked]:
    def one(text: str, answer: str | int, title: str) -> Asked:
        return Asked(text, str(answer), (title,), ONE)

    for town in country.towns:
        yield one(f"In which year was the town of {town.name} founded?", town.founded, town.name)
        yield one(f"Which river does the town of {town.name} lie on?", town.river, town.name)
    for person in country.people:
        yield one(f"Who was {person.name}'s teacher?", person.teacher, person.name)
        yield one(f"In which town was {person.name} born?", person.town, person.name)
    for work in country.works:
        yield one(f"Who {WORK_KINDS[work.kind][0]} the {work.kind} {work.name}?", work.maker, work.name)
    for building in country.buildings:
        yield one(f"Which architect designed the {building.name}?", building.architect, building.name)
    for mountain in country.mountains:
        yield one(f"How many metres high is {mountain.name}?", mountain.metres, mountain.name)
    for province in country.provinces:
        yield one(f"Which town is the capital of {province.name}?", province.capital, province.name)


class _Two:
    """Questions by way of a second entry."""

    def __init__(self, country: Country) -> None:
        self._country = country
        self._towns = {each.name: each for each in country.towns}
        self._people = {each.name: each for each in country.people}
        self._rivers = {each.name: each for each in country.rivers}
        self._mountains = {each.name: each for each in country.mountains}
        self._provinces = {each.name: each for each in country.provinces}

    def questions(self) -> Iterator[Asked]:
        for work in self._country.works:
            yield from self._of_person(f"the {WORK_KINDS[work.kind][1]} of the {work.kind} {work.name}", work.name, self._people[work.maker])
        for building in self._country.buildings:
            yield from self._of_person(f"the architect of the {building.name}", building.name, self._people[building.architect])
        for person in self._country.people:
            yield from self._of_town(f"the town where {person.name} was born", person.name, self._towns[person.town])
        for town in self._country.towns:
            yield from self._of_river(f"the river that {town.name} lies on", town.name, self._rivers[town.river])
            yield from self._of_province(f"the province in which {town.name} lies", town.name, self._provinces[town.province])
        for river in self._country.rivers:
            yield from self._of_mountain(f"the mountain on which the river {river.name} rises", river.name, self._mountains[river.mountain])

    def _of_person(self, who: str, title: str, person: Person) -> Iterator[Asked]:
        yield _two(f"In which town was {who} born?", person.town, title, person.name)
        yield _two(f"In which year was {who} born?", person.born, title, person.name)
        yield _two(f"Who was the teacher of {who}?", person.teacher, title, person.name)

    def _of_town(self, where: str, title: str, town: Town) -> Iterator[Asked]:
        yield _two(f"Which river does {where} lie on?", town.river, title, town.name)
        yield _two(f"Who founded {where}?", town.founder, title, town.name)

    def _of_river(self, which: str, title: str, river: River) -> Iterator[Asked]:
        yield _two(f"Into which sea does {which} empty?", river.sea, title, river.name)
        yield _two(f"On which mountain does {which} rise?", river.mountain, title, river.name)

    def _of_province(self, which: str, title: str, province: Province) -> Iterator[Asked]:
        if province.capital != title:
            yield _two(f"Which town is the capital of {which}?", province.capital, title, province.name)
        yield _two(f"What does the flag of {which} show?", province.flag, title, province.name)

    def _of_mountain(self, which: str, title: str, mountain: Mountain) -> Iterator[Asked]:
        yield _two(f"Who first climbed {which}?", mountain.climber, title, mountain.name)
        yield _two(f"How many metres high is {which}?", mountain.metres, title, mountain.name)


def _two(text: str, answer: str | int, first: str, second: str) -> Asked:
    return Asked(text, str(answer), (first, second), TWO)


def _compared(country: Country) -> Iterator[Asked]:
    for one, other in pairwise(country.towns):
        earlier = min(one, other, key=lambda town: town.founded)
        if one.founded != other.founded:
            yield Asked(f"Which town was founded first, {one.name} or {other.name}?", earlier.name, (one.name, other.name), COMPARED)
    for first, second in pairwise(country.people):
        older = min(first, second, key=lambda person: person.born)
        if first.born != second.born:
            yield Asked(f"Who was born first, {first.name} or {second.name}?", older.name, (first.name, second.name), COMPARED)
