#!/usr/bin/env python3
"""Checks facts.jsonl, queries.jsonl and the output of distractors.py; prints the figures of README.md.

Standard library only. Exit status 1 when a rule is broken.
usage: check.py [--verbose] [--rankings]
  --verbose   print the paraphrases that share words with their answer
  --rankings  print what BM25 finds for each query besides the relevant memories
"""
import collections
import hashlib
import json
import math
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOTS = {
    "semantic": {"decisions", "knowledge", "entities", "preferences"},
    "episodic": {"incidents", "sessions", "blockers"},
    "procedural": {"runbooks", "patterns", "migrations"},
}
FIELDS = ["key", "memory_type", "namespace", "title", "content", "tags"]
STOP = set("""a about after all also am an and any are around as at be because been before being between both but by
can cannot could couldn did do does doesn doing don down during each either else ever every few for from further get
gets getting go goes going got had has have having he her here him his how i if in into is isn it its itself just
let ll many may me might more most much must my no nor not now of off on once one only or other our ours out over own
per same shall she should so some somebody someone such t s than that the their them then there these they thing things
this those though through to too under until up upon us ve very was we were what when where whether which while who
whom whose why will with without would yes yet you your re d
der die das den dem des ein eine einen einem eines und oder in im an am auf aus bei mit nach von vor zu zum zur ist sind
war wir uns nicht sie es ich warum weshalb welcher welchem welche wie was wo wer sollen können am besten
le la les un une des du de et ou où en au aux est sont était dans par pour pourquoi quel quelle que qui ne pas plus ce
se chez elle il y t
el los las una unos unas y o en del al es son con por para qué cuál cuánto cómo dónde a se que no hay""".split())
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
WORD = re.compile(r"[^\W_]+", re.UNICODE)


def tokens(text):
    """Content words of a text; runs of Chinese, Japanese or Korean give character pairs."""
    text = text.lower()
    found = []
    for run in CJK.findall(text):
        found.extend(run[i:i + 2] for i in range(max(1, len(run) - 1)))
    found.extend(w for w in WORD.findall(CJK.sub(" ", text)) if w not in STOP)
    return found


def terms(text):
    return set(tokens(text))


def stem(word):
    """A crude stem (first five characters), to see overlap hidden by inflection."""
    return word if CJK.search(word) else word[:5]


def whole(memory):
    return " ".join([memory["title"], memory["content"], *memory["tags"]])


def bm25(memories, queries, k1=1.2, b=0.75):
    """Yields (query, best ten keys) of a plain BM25 over the content words; the lexical baseline of README.md."""
    postings, length = collections.defaultdict(list), {}
    for m in memories:
        counts = collections.Counter(tokens(whole(m)))
        length[m["key"]] = sum(counts.values())
        for term, n in counts.items():
            postings[term].append((m["key"], n))
    mean = sum(length.values()) / len(length)
    for q in queries:
        scores = collections.Counter()
        for term in sorted(set(tokens(q["query"]))):
            held = postings.get(term, ())
            idf = math.log(1 + (len(length) - len(held) + 0.5) / (len(held) + 0.5))
            for key, n in held:
                scores[key] += idf * n * (k1 + 1) / (n + k1 * (1 - b + b * length[key] / mean))
        yield q, sorted(scores.items(), key=lambda s: (-s[1], s[0]))[:10]


def ndcg(relevant, ranking):
    def gain(grades):
        return sum((2**g - 1) / math.log2(i + 2) for i, g in enumerate(grades))
    return gain([relevant.get(k, 0) for k in ranking]) / gain(sorted(relevant.values(), reverse=True)[:10])


def language(text):
    if re.search(r"[\uac00-\ud7af]", text):
        return "ko"
    if re.search(r"[\u3040-\u30ff]", text):
        return "ja"
    if re.search(r"[\u4e00-\u9fff]", text):
        return "zh"
    return "latin"


def load(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_memories(rows, prefix, errors):
    for row in rows:
        if list(row) != FIELDS:
            errors.append(f"{row.get('key')}: fields {list(row)}")
        head, _, tail = row["namespace"].partition("/")
        if head != "_" + row["memory_type"] or tail not in ROOTS.get(row["memory_type"], ()):
            errors.append(f"{row['key']}: namespace {row['namespace']} / {row['memory_type']}")
        if not row["key"].startswith(prefix) or not row["title"] or not row["content"] or not row["tags"]:
            errors.append(f"{row['key']}: empty or ill-formed")


def main():
    verbose = "--verbose" in sys.argv
    errors = []
    facts = load(HERE / "facts.jsonl")
    queries = load(HERE / "queries.jsonl")
    check_memories(facts, "g", errors)
    by_key = {f["key"]: f for f in facts}
    if len(by_key) != len(facts):
        errors.append("duplicate gold keys")
    if len({f["content"] for f in facts}) != len(facts):
        errors.append("duplicate gold contents")
    seen, covered, covered2 = set(), set(), set()
    for q in queries:
        folded = " ".join(q["query"].lower().split())
        if folded in seen:
            errors.append(f"duplicate query: {folded}")
        seen.add(folded)
        if q["kind"] not in ("keyword", "question", "paraphrase"):
            errors.append(f"kind: {q}")
        for key, grade in q["relevant"].items():
            if key not in by_key or grade not in (1, 2):
                errors.append(f"relevant: {q}")
            covered.add(key)
            if grade == 2:
                covered2.add(key)
        if 2 not in q["relevant"].values():
            errors.append(f"no grade 2: {q}")
    for key in by_key:
        if key not in covered2:
            errors.append(f"{key} is the answer to no query")

    print("gold memories:", len(facts), dict(collections.Counter(f["memory_type"] for f in facts)))
    print("  by script:", dict(collections.Counter(language(f["title"] + f["content"]) for f in facts)))
    print("queries:", len(queries), dict(collections.Counter(q["kind"] for q in queries)))
    print("  by script:", dict(collections.Counter(language(q["query"]) for q in queries)))
    print("  relevant memories per query:",
          dict(sorted(collections.Counter(len(q["relevant"]) for q in queries).items())))
    print("  judgements by grade:",
          dict(collections.Counter(g for q in queries for g in q["relevant"].values())))
    shares = collections.defaultdict(list)
    for q in queries:
        asked = terms(q["query"])
        best = best_stem = 0.0
        for key, grade in q["relevant"].items():
            if grade != 2 or not asked:
                continue
            held = terms(whole(by_key[key]))
            best = max(best, len(asked & held) / len(asked))
            stems = {stem(w) for w in held}
            best_stem = max(best_stem, sum(stem(w) in stems for w in asked) / len(asked))
            if verbose and q["kind"] == "paraphrase" and (asked & held or best_stem > 0.15):
                print(f"    {best:.2f} {best_stem:.2f} {key} {sorted(asked & held)} "
                      f"{sorted(w for w in asked if stem(w) in stems)} {q['query']}")
        shares[q["kind"]].append((best, best_stem))
    for kind, values in sorted(shares.items()):
        n = len(values)
        print(f"  overlap {kind}: mean {sum(v[0] for v in values) / n:.3f}, "
              f"by 5-letter stem {sum(v[1] for v in values) / n:.3f}, "
              f"highest {max(v[0] for v in values):.2f}, without any {sum(v[0] == 0 for v in values)} of {n}")
    if sum(v[0] for v in shares["paraphrase"]) / len(shares["paraphrase"]) > 0.15:
        errors.append("paraphrases share too many words with their answers")

    made = subprocess.run([sys.executable, str(HERE / "distractors.py")], check=True, capture_output=True).stdout
    rows = [json.loads(line) for line in made.decode("utf-8").splitlines()]
    check_memories(rows, "d", errors)
    print("distractors:", len(rows), dict(collections.Counter(r["memory_type"] for r in rows)))
    print("  by script:", dict(collections.Counter(language(r["title"] + r["content"]) for r in rows)))
    contents = collections.Counter(r["content"] for r in rows)
    if any(n > 1 for n in contents.values()) or any(f["content"] in contents for f in facts):
        errors.append("equal contents among the distractors")
    if len({r["key"] for r in rows}) != len(rows):
        errors.append("duplicate distractor keys")
    info = subprocess.run([sys.executable, str(HERE / "distractors.py"), "--origin"],
                          check=True, capture_output=True).stdout.decode("utf-8").splitlines()
    pairs = collections.Counter(tuple(line.split("\t")[1:3]) for line in info)
    shared = sum(n for n in pairs.values() if n > 1)
    print(f"  templates: {len({p[0] for p in pairs})}; sharing template and main noun with another: "
          f"{shared} ({100 * shared / len(rows):.2f} %)")
    if shared >= 0.05 * len(rows):
        errors.append("too many distractors share template and main noun")
    groups = collections.defaultdict(list)
    for row, line in zip(rows, info):
        groups[line.split("\t")[1]].append(terms(row["content"]))
    close = 0
    for group in groups.values():
        for i, one in enumerate(group):
            close += any(len(one & two) > 0.8 * len(one | two) for j, two in enumerate(group) if j != i)
    print(f"  with over 0.8 of the content words in common with another: {close} ({100 * close / len(rows):.2f} %)")
    if close >= 0.05 * len(rows):
        errors.append("too many near-duplicates among the distractors")
    gold_words = set().union(*(terms(f["title"] + " " + f["content"]) for f in facts))
    near = [len(terms(r["content"]) & gold_words) / max(1, len(terms(r["content"]))) for r in rows]
    print(f"  share of a distractor's content words found in some gold memory: mean {sum(near) / len(near):.2f}")
    figures = collections.defaultdict(list)
    for q, best in bm25(facts + rows, queries):
        ranking = [key for key, _ in best]
        good = {k for k, g in q["relevant"].items() if g == 2}
        figures[q["kind"]].append((ndcg(q["relevant"], ranking), bool(good & set(ranking[:1])),
                                   len(good & set(ranking)) / len(good)))
        if "--rankings" in sys.argv:
            print(f"  {q['kind'][0].upper()} {q['query']}  {q['relevant']}")
            for key, score in best[:4]:
                if key not in q["relevant"]:
                    m = by_key.get(key) or next(r for r in rows if r["key"] == key)
                    print(f"      {score:.1f} {key} {m['title']}: {m['content'][:110]}")
    for kind, values in sorted(figures.items()):
        n = len(values)
        print(f"  BM25 over all {len(facts) + len(rows)}, {kind}: nDCG@10 {sum(v[0] for v in values) / n:.3f}, "
              f"answer first {sum(v[1] for v in values) / n:.3f}, recall@10 {sum(v[2] for v in values) / n:.3f}")
    # Names that only gold memories may bear.
    names = (HERE / "gold_names.txt").read_text(encoding="utf-8").split("\n")
    names = [n.strip().lower() for n in names if n.strip()]
    for r in rows:
        text = (r["title"] + " " + r["content"] + " " + " ".join(r["tags"])).lower()
        for n in names:
            if n in text and re.search(r"(?<!\w)" + re.escape(n) + r"(?!\w)" if not CJK.search(n) else re.escape(n), text):
                errors.append(f"{r['key']} bears the gold name {n}: {r['content']}")
    print("  SHA-256 of the default output:", hashlib.sha256(made).hexdigest())
    for e in errors[:40]:
        print("ERROR", e)
    print("errors:", len(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
