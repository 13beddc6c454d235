"""A country that does not exist: its provinces, towns, rivers, mountains, people, works and buildings, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agentgym_envs.searchqa.make.draw import Draw

_PROVINCES, _TOWNS, _RIVERS, _MOUNTAINS, _PEOPLE, _WORKS, _BUILDINGS, _SEAS = 8, 42, 20, 16, 60, 34, 26, 5
_FLAGS = ("a heron", "three acorns", "a silver anchor", "a black ladder", "two keys", "a red lantern", "a beehive", "a broken wheel")
_GOODS = [
    "blue glass",
    "salted eels",
    "rope",
    "church bells",
    "juniper cheese",
    "tin spoons",
    "oak barrels",
    "clay pipes",
    "woollen capes",
    "pear brandy",
    "lamp oil",
    "paper",
]
_ADJECTIVES = ["Amber", "Silent", "Ninth", "Hollow", "Crooked", "Salt", "Winter", "Paper", "Lost", "Copper", "Blind", "Burning"]
_NOUNS = ["Staircase", "Orchard", "Lighthouse", "Harvest", "Mirror", "Compass", "Ferryman", "Letter", "Garden", "Clock", "Sparrow", "Threshold"]
WORK_KINDS = {"novel": ("wrote", "author"), "opera": ("composed", "composer"), "painting": ("painted", "painter")}
"""By kind of a work, what its maker did and is called."""
CRAFTS = {"novel": "novelist", "opera": "composer", "painting": "painter"}


@dataclass(frozen=True, slots=True)
class Province:
    name: str
    capital: str
    sea: str
    flag: str


@dataclass(frozen=True, slots=True)
class Mountain:
    name: str
    province: str
    metres: int
    climber: str


@dataclass(frozen=True, slots=True)
class River:
    name: str
    mountain: str
    sea: str
    kilometres: int


@dataclass(frozen=True, slots=True)
class Town:
    name: str
    province: str
    river: str
    founded: int
    founder: str
    good: str


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    craft: str
    town: str
    born: int
    teacher: str


@dataclass(frozen=True, slots=True)
class Work:
    name: str
    kind: str
    maker: str
    year: int


@dataclass(frozen=True, slots=True)
class Building:
    name: str
    kind: str
    town: str
    architect: str
    year: int


@dataclass(frozen=True, slots=True)
class Country:
    """Everything in it; names are unique over all of them."""

    provinces: tuple[Province, ...]
    mountains: tuple[Mountain, ...]
    rivers: tuple[River, ...]
    towns: tuple[Town, ...]
    people: tuple[Person, ...]
    works: tuple[Work, ...]
    buildings: tuple[Building, ...]


def drawn(seed: str) -> Country:
    """The country of a seed."""
    draw = Draw(seed)
    seas = [f"{draw.name('sea', str(n))} Sea" for n in range(_SEAS)]
    provinces = [draw.name("province", str(n)) for n in range(_PROVINCES)]
    mountains = [f"Mount {draw.name('mountain', str(n))}" for n in range(_MOUNTAINS)]
    rivers = [draw.name("river", str(n)) for n in range(_RIVERS)]
    towns = [draw.name("town", str(n)) for n in range(_TOWNS)]
    people = _people(draw, towns)
    named = [person.name for person in people]
    return Country(
        provinces=tuple(
            Province(name, towns[place], draw.pick(f"{name}/sea", seas), flag)
            for place, (name, flag) in enumerate(zip(provinces, draw.shuffled("flags", _FLAGS), strict=True))
        ),
        mountains=tuple(
            Mountain(name, draw.pick(f"{name}/in", provinces), draw.number(f"{name}/high", 900, 4_800), draw.pick(f"{name}/by", named))
            for name in mountains
        ),
        rivers=tuple(
            River(name, draw.pick(f"{name}/from", mountains), draw.pick(f"{name}/to", seas), draw.number(f"{name}/long", 40, 700)) for name in rivers
        ),
        towns=tuple(_town(draw, name, place, provinces, rivers) for place, name in enumerate(towns)),
        people=tuple(people),
        works=tuple(_works(draw, people)),
        buildings=tuple(_building(draw, number, towns, people) for number in range(_BUILDINGS)),
    )


def _people(draw: Draw, towns: list[str]) -> list[Person]:
    """A teacher is 15 to 60 years older; where nobody is, somebody without an entry."""
    crafts = ("architect", *CRAFTS.values())
    people = [
        Person(_full_name(draw, str(n)), crafts[n % len(crafts)], draw.pick(f"{n}/town", towns), draw.number(f"{n}/born", 1611, 1899), "")
        for n in range(_PEOPLE)
    ]
    older = {one.name: [other.name for other in people if 15 <= one.born - other.born <= 60] for one in people}
    return [replace(it, teacher=draw.pick(f"{it.name}/of", older[it.name] or [_full_name(draw, f"{it.name}/of")])) for it in people]


def _full_name(draw: Draw, key: str) -> str:
    return f"{draw.name('first', key)} {draw.name('last', key)}"


def _town(draw: Draw, name: str, place: int, provinces: list[str], rivers: list[str]) -> Town:
    # The first towns are the capitals of the provinces, in their order.
    province = provinces[place] if place < len(provinces) else draw.pick(f"{name}/in", provinces)
    founded, founder = draw.number(f"{name}/year", 1102, 1588), _full_name(draw, f"{name}/by")
    return Town(name, province, draw.pick(f"{name}/river", rivers), founded, founder, draw.pick(f"{name}/good", _GOODS))


def _works(draw: Draw, people: list[Person]) -> Iterator[Work]:
    titles = draw.shuffled("titles", [f"The {adjective} {noun}" for adjective in _ADJECTIVES for noun in _NOUNS])[:_WORKS]
    kinds = list(WORK_KINDS)
    for place, title in enumerate(titles):
        kind = kinds[place % len(kinds)]
        maker = draw.pick(f"{title}/by", [person for person in people if person.craft == CRAFTS[kind]])
        yield Work(title, kind, maker.name, _in_life(draw, title, maker))


def _building(draw: Draw, number: int, towns: list[str], people: list[Person]) -> Building:
    kind = draw.pick(f"building/{number}", ("Bridge", "Tower", "Library", "Theatre"))
    name = f"{draw.name('mountain', f'building/{number}')} {kind}"
    architect = draw.pick(f"{name}/by", [person for person in people if person.craft == "architect"])
    return Building(name, kind.lower(), draw.pick(f"{name}/in", towns), architect.name, _in_life(draw, name, architect))


def _in_life(draw: Draw, key: str, person: Person) -> int:
    """A year in which the person was 24 to 61 years old."""
    return person.born + draw.number(f"{key}/year", 24, 61)
