#!/usr/bin/env python3
"""Compares SQLite's FTS5, which Atlatl ranks words with, and tantivy, an index made for the best k.

    python3 -m venv /tmp/topk && /tmp/topk/bin/pip install tantivy==0.27.0
    /tmp/topk/bin/python bench/topk/compare.py [MEMORIES]

Both index the same generated texts of about 60 words, whose frequencies follow Zipf's law, in a
temporary directory, and answer the same queries for the best 50, one after the other. Nothing of
Atlatl runs: this is what the engines bring and cost.
"""

import bisect
import itertools
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time

import tantivy

MEMORIES = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
VOCABULARY, BEST, TIMES = 30_000, 50, 60
RANDOM = random.Random(42)
TOTALS = list(itertools.accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))


def word():
    rank = bisect.bisect(TOTALS, RANDOM.random() * TOTALS[-1])
    return f"w{rank}x"


def size(directory):
    files = (os.path.join(top, name) for top, _, names in os.walk(directory) for name in names)
    return sum(os.path.getsize(file) for file in files) / 1e6


def milliseconds(answer, queries):
    for query in queries[:5]:
        answer(query)
    times = []
    for query in queries:
        begun = time.perf_counter()
        found = answer(query)
        times.append((time.perf_counter() - begun) * 1e3)
        assert found or MEMORIES < 100_000, query
    return statistics.median(times), sorted(times)[int(len(times) * 0.95)]


texts = [" ".join(word() for _ in range(60)) for _ in range(MEMORIES)]
pick = {
    "two rare words": lambda: [f"w{RANDOM.randrange(8000, 20000)}x" for _ in range(2)],
    "five mixed words": lambda: [f"w{RANDOM.randrange(0, 40)}x" for _ in range(3)]
    + [f"w{RANDOM.randrange(1000, 20000)}x" for _ in range(2)],
    "the three commonest words": lambda: [f"w{rank}x" for rank in RANDOM.sample(range(6), 3)],
}
queries = {name: [one() for _ in range(TIMES)] for name, one in pick.items()}

with tempfile.TemporaryDirectory() as home:
    path = os.path.join(home, "fts5.db")
    begun = time.perf_counter()
    sqlite = sqlite3.connect(path)
    sqlite.execute("PRAGMA journal_mode = wal")
    sqlite.execute("CREATE VIRTUAL TABLE t USING fts5(text, content='', detail=full)")
    with sqlite:
        sqlite.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", enumerate(texts, 1))
    with sqlite:
        sqlite.execute("INSERT INTO t (t) VALUES ('optimize')")
    sqlite.execute("PRAGMA wal_checkpoint(truncate)")
    built = {"FTS5": (time.perf_counter() - begun, os.path.getsize(path) / 1e6)}

    folder = os.path.join(home, "tantivy")
    os.mkdir(folder)
    begun = time.perf_counter()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="default")
    schema.add_unsigned_field("key", stored=True)
    index = tantivy.Index(schema.build(), path=folder)
    writer = index.writer(128_000_000, 1)
    for key, text in enumerate(texts, 1):
        writer.add_document(tantivy.Document(text=text, key=key))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    built["tantivy"] = (time.perf_counter() - begun, size(folder))

    begun = time.perf_counter()
    writer = index.writer(32_000_000, 1)
    writer.add_document(tantivy.Document(text=texts[0], key=0))
    writer.commit()
    commit = (time.perf_counter() - begun) * 1e3
    begun = time.perf_counter()
    with sqlite:
        sqlite.execute("INSERT INTO t (rowid, text) VALUES (?, ?)", (MEMORIES + 1, texts[0]))
    insert = (time.perf_counter() - begun) * 1e3
    index.reload()
    searcher = index.searcher()

    def fts5(words):
        sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?"
        return sqlite.execute(sql, (" OR ".join(words), BEST)).fetchall()

    def best(words):
        return searcher.search(index.parse_query(" ".join(words), ["text"]), BEST).hits

    print(f"{MEMORIES} texts, SQLite {sqlite3.sqlite_version}, {tantivy.__version__}")
    for name, asked in queries.items():
        (a, a95), (b, b95) = milliseconds(fts5, asked), milliseconds(best, asked)
        print(f"{name}: FTS5 {a:.2f} ms (p95 {a95:.2f}), tantivy {b:.2f} ms (p95 {b95:.2f}), {a / b:.1f} times")
    for name, (seconds, megabytes) in built.items():
        print(f"{name}: built in {seconds:.1f} s, {megabytes:.1f} MB")
    print(f"one more text, durable: FTS5 {insert:.1f} ms, tantivy {commit:.1f} ms")
    library = next(f for f in os.listdir(os.path.dirname(tantivy.__file__)) if f.endswith(".so"))
    print(f"library of tantivy: {os.path.getsize(os.path.join(os.path.dirname(tantivy.__file__), library)) / 1e6:.1f} MB")
