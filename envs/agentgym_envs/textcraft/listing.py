"""What a task tells the policy: its needed recipes and some others, in an order that depends on the task's number alone.

Orders come from SHA-256 of (book, task, line), so neither a generator's state, nor Python's hash seed, nor other sessions change a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from agentgym_envs.textcraft.book import Book, Recipe


def goal_of(book: Book, index: int) -> str:
    """The goal of task ``index``, 0 <= index < book.task_count."""
    return book.goals[index % len(book.goals)]


def needed_recipes(book: Book, goal: str) -> tuple[Recipe, ...]:
    """Every recipe in the tree under ``goal``, in the book's order."""
    made = _tree(book, goal)
    return tuple(recipe for recipe in book.recipes if recipe.output in made)


def listed_recipes(book: Book, index: int) -> tuple[Recipe, ...]:
    """The recipes that task ``index`` lists, in the order in which it lists them."""
    made = _tree(book, goal_of(book, index))
    needed = [recipe for name in made for recipe in book.by_output[name]]
    others = _ordered(f"{book.name}/{index}/distractors", _candidates(book, made, needed))[: _distractor_count(book, index, len(needed))]
    return tuple(_ordered(f"{book.name}/{index}/listing", (*needed, *others)))


def first_observation(book: Book, index: int) -> str:
    """The prompt of task ``index``."""
    return render(listed_recipes(book, index), goal_of(book, index))


def render(recipes: Iterable[Recipe], goal: str) -> str:
    """The prompt's text."""
    lines = "\n".join(map(str, recipes))
    return f"Crafting commands:\n{lines}\n\nGoal: craft {goal}."


def digest(observation: str) -> str:
    """What pins a task's content: the first 16 hex digits of SHA-256 of its first observation in UTF-8."""
    return sha256(observation.encode()).hexdigest()[:16]


def _tree(book: Book, goal: str) -> set[str]:
    """The made items in the tree under ``goal``, itself included."""
    wanted, seen = [goal], {goal}
    while wanted:
        for recipe in book.by_output[wanted.pop()]:
            made = {name for part in recipe.inputs for name in book.members(part.name) if name in book.by_output}
            wanted.extend(made - seen)
            seen |= made
    return seen


def _candidates(book: Book, made: set[str], needed: Iterable[Recipe]) -> list[Recipe]:
    others = [recipe for recipe in book.recipes if recipe.output not in made]
    if not book.rule.related_only:
        return others
    used = {name for recipe in needed for part in recipe.inputs for name in (part.name, *book.members(part.name))}
    return [recipe for recipe in others if any(part.name in used for part in recipe.inputs)]


def _distractor_count(book: Book, index: int, needed: int) -> int:
    rule = book.rule
    spread = rule.most - rule.fewest + 1
    drawn = rule.most if rule.related_only else rule.fewest + _number(f"{book.name}/{index}/count") % spread
    return drawn if rule.most_lines is None else max(0, min(drawn, rule.most_lines - needed))


def _ordered(salt: str, recipes: Iterable[Recipe]) -> list[Recipe]:
    return sorted(recipes, key=lambda recipe: sha256(f"{salt}/{recipe.text}".encode()).digest())


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")
