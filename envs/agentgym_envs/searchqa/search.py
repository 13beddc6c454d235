"""BM25 over passages, in memory or in a folder. The only file that knows tantivy; a query is a bag of words and has no syntax."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import tantivy

from agentgym_envs.searchqa.passages import DataError, Passage, shown

ENGINE = f"{tantivy.tantivy.__version__.partition(', ')[2]} of tantivy; words lower-cased, folded to ASCII, stemmed (English)"
"""How an index is written; it is read by the same only."""
MOST_WORDS = 64
"""Distinct words of a query that count, from its start."""
_LONGEST_WORD_BYTES = 40
_HEAP_BYTES = 128_000_000
_SMALL_HEAP_BYTES = 15_000_000
_SPARE = 13
_MOST_EQUAL = 4_096
"""Passages of equal score among which the first of the corpus are found for sure."""
_DECIMALS = 4
"""Scores are single precision, and their sum may depend on how the index lies on disk; what is equal to so many decimals is equal."""


class Bm25:
    """A search in an index that no longer changes; may be called from several threads."""

    def __init__(self, index: tantivy.Index, where: str) -> None:
        """``where`` is how messages name the index."""
        self._where = where
        index.config_reader("manual")
        index.reload()
        self._searcher = index.searcher()
        self._words = _analyzer()

    def __len__(self) -> int:
        """How many passages there are."""
        return int(self._searcher.num_docs)

    def find(self, query: str, count: int) -> list[Passage]:
        """The best passages by BM25 (k1 1.2, b 0.75); of equal ones, the first of the corpus first. DataError where the index is damaged."""
        with _undamaged(self._where):
            return self._found(query, count)

    def _found(self, query: str, count: int) -> list[Passage]:
        words = self.words_of(query)[:MOST_WORDS]
        wanted = tantivy.Query.boolean_query([(tantivy.Occur.Should, _term(word)) for word in words])
        limit = count + _SPARE
        while True:
            hits = [(round(score, _DECIMALS), place) for score, place in self._searcher.search(wanted, limit, count=False).hits] if words else []
            if len(hits) < limit or hits[-1][0] < hits[count - 1][0] or limit >= _MOST_EQUAL:
                break
            limit = min(8 * limit, _MOST_EQUAL)
        numbers = self._searcher.fast_field_values("number", [place for _, place in hits])
        best = sorted(zip(hits, numbers, strict=True), key=lambda found: (-found[0][0], found[1]))[:count]
        return [Passage(*orjson.loads(self._searcher.doc(place)["passage"][0])) for (_, place), _ in best]

    def words_of(self, text: str) -> list[str]:
        """The distinct words that are looked for, in the order in which they first stand."""
        return list(dict.fromkeys(self._words.analyze(text.encode("utf-8", "replace").decode())))


class Writer:
    """Adds passages to a new index, or to one whose writing was interrupted: in a folder, or in memory where that is None."""

    def __init__(self, folder: Path | None) -> None:
        """DataError when the folder holds something else, or a damaged index."""
        self._where = "the index in memory" if folder is None else str(folder)
        with _undamaged(self._where):
            self._index = tantivy.Index(_schema(), path=None if folder is None else str(folder))
            self._index.register_tokenizer("words", _analyzer())
            self._index.reload()
            self.written = int(self._index.searcher().num_docs)
            # With one thread, passages lie in the order of the corpus.
            self._writer = self._index.writer(_SMALL_HEAP_BYTES if folder is None else _HEAP_BYTES, 1)

    def add(self, passage: Passage) -> None:
        """Add the next passage; it is there for good after the next commit."""
        document = tantivy.Document()
        document.add_unsigned("number", self.written)
        document.add_bytes("passage", orjson.dumps([passage.title, passage.text]))
        document.add_text("words", f"{passage.title}\n{passage.text}")
        self._writer.add_document(document)
        self.written += 1

    def commit(self) -> None:
        """Keep what was added, whatever happens then."""
        self._writer.commit()

    def finish(self) -> Bm25:
        """Commit, and wait until the index has the form in which it stays; nothing can be added after it."""
        self._writer.commit()
        self._writer.wait_merging_threads()
        return Bm25(self._index, self._where)


def in_memory(passages: Iterable[Passage]) -> Bm25:
    """A search in passages that are few."""
    writer = Writer(None)
    for passage in passages:
        writer.add(passage)
    return writer.finish()


def open_index(folder: Path) -> Bm25:
    """The search in a folder that a Writer has written; mapped into memory, not read. DataError where there is none, or a damaged one."""
    with _undamaged(str(folder)):
        search = Bm25(tantivy.Index.open(str(folder)), str(folder))
    # Some of its files are opened by the first search only.
    search.find("any", 1)
    return search


@contextmanager
def _undamaged(where: str) -> Iterator[None]:
    """DataError where the engine says, or shows by a panic, that an index is not as it was written."""
    try:
        yield
    except BaseException as err:
        # A panic is no Exception, and its class cannot be imported.
        if isinstance(err, ValueError) or type(err).__name__ == "PanicException":
            raise DataError(
                f"{where}: expected an index as it was written, got a damaged one ({shown(str(err))}); remove it and make it again"
            ) from err
        raise


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("number", fast=True)
    builder.add_bytes_field("passage", stored=True)
    builder.add_text_field("words", tokenizer_name="words", index_option="freq")
    return builder.build()


def _analyzer() -> tantivy.TextAnalyzer:
    keep = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for rule in (keep.remove_long(_LONGEST_WORD_BYTES), keep.lowercase(), keep.ascii_fold(), keep.stemmer("english")):
        builder = builder.filter(rule)
    return builder.build()


def _term(word: str) -> tantivy.Query:
    return tantivy.Query.term_query(_SCHEMA, "words", word, index_option="freq")


_SCHEMA = _schema()
