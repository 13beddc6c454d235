"""How an answer is scored: exact match and F1 after SQuAD's normalisation (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalised(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, words apart by one space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Iterable[str]) -> bool:
    """Whether the answer equals one of those accepted, both normalised."""
    said = normalised(answer)
    return any(said == normalised(each) for each in accepted)


def f1(answer: str, accepted: Iterable[str]) -> float:
    """The best F1, 0 to 1, of the answer's words against those of one accepted answer, both normalised, words counted as often as they stand."""
    said = normalised(answer).split()
    return max((_f1(said, normalised(each).split()) for each in accepted), default=0.0)


def _f1(said: list[str], wanted: list[str]) -> float:
    shared = (Counter(said) & Counter(wanted)).total()
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0
