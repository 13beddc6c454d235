"""The laptop book: 20 found items and 48 goals in words of our own, regular enough for a small model to learn in minutes."""

from __future__ import annotations

from agentgym_envs.textcraft.book import Book, ListingRule, parse_recipe

HELD_OUT = ("hemp cord", "elm board", "zinc wire", "loam urn", "hazel frame", "pewter hook", "slate lamp", "elm loom")
"""Goals of split ``unseen_goals``. Those of depth 1 and 2 are made on the way to goals that are trained."""
_FIBRES = ("flax", "hemp", "rush")
_WOODS = (("alder", "flax"), ("hazel", "hemp"), ("elm", "rush"))
_EARTHS = ("marl", "loam", "slate")
_METALS = (("tin", "alder"), ("zinc", "hazel"), ("pewter", "elm"))


def laptop_book() -> Book:
    """48 goals, 18/18/12 at depth 1/2/3, in 40 listings each."""
    lines = [
        *(f"craft 2 {fibre} cord using 3 {fibre}" for fibre in _FIBRES),
        *(f"craft 2 {wood} board using 1 {wood}" for wood, _ in _WOODS),
        *(f"craft 2 {earth} tile using 2 {earth}, 1 ash" for earth in _EARTHS),
        *(f"craft 1 {metal} wire using 1 {metal}" for metal, _ in _METALS),
        "craft 1 felt using 2 fleece",
        "craft 1 vellum using 1 pelt, 1 ash",
        "craft 1 ink using 1 soot, 1 resin",
        "craft 1 glue using 2 horn",
        "craft 1 soap using 1 tallow, 2 ash",
        "craft 1 dye using 2 madder",
        *(f"craft 1 {fibre} net using 2 {fibre} cord, 1 resin" for fibre in _FIBRES),
        *(f"craft 1 {wood} frame using 2 {wood} board, 1 {fibre} cord" for wood, fibre in _WOODS),
        *(f"craft 1 {earth} urn using 2 {earth} tile" for earth in _EARTHS),
        *(f"craft 1 {metal} hook using 1 {metal} wire, 1 horn" for metal, _ in _METALS),
        "craft 1 felt cap using 2 felt",
        "craft 1 vellum page using 1 vellum, 1 soot",
        "craft 1 ink stone using 1 ink, 1 slate",
        "craft 1 glue pot using 1 glue, 1 loam",
        "craft 1 soap bar using 1 soap, 1 tallow",
        "craft 1 red felt using 1 felt, 1 dye",
        *(f"craft 1 {wood} loom using 1 {wood} frame, 1 fleece" for wood, _ in _WOODS),
        *(f"craft 1 {earth} lamp using 1 {earth} urn, 1 tallow" for earth in _EARTHS),
        *(f"craft 1 {metal} trap using 1 {metal} hook, 1 {wood} board" for metal, wood in _METALS),
        "craft 1 felt hood using 1 felt cap, 1 tin wire",
        "craft 1 vellum book using 1 vellum page, 1 glue",
        "craft 1 red coat using 1 red felt, 1 flax cord",
    ]
    rule = ListingRule(fewest=2, most=4, most_lines=8, related_only=False)
    return Book(name="laptop", recipes=tuple(parse_recipe(line) for line in lines), tags={}, variants=40, rule=rule)
