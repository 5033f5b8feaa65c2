//! Tests of the corpora.

use std::collections::BTreeSet;

use lro_core::{O200k, Tokenizer as _};
use mif::Memory;
use xtask::repository::Repository;

use super::text::{PRODUCTS, UNMENTIONED_PRODUCTS};
use super::*;

fn corpus(name: &str) -> Corpus {
    generate(name.parse().unwrap())
}

fn memories(count: usize) -> Vec<Memory> {
    let corpus = generate(CorpusId { kind: CorpusKind::Memories, size: count });
    corpus.text().unwrap().lines().map(|line| Memory::from_json(line).unwrap()).collect()
}

#[test]
fn names_are_parsed_back() {
    for id in ALL {
        assert_eq!(id.to_string().parse::<CorpusId>().unwrap(), *id);
    }
    assert_eq!(corpus_id(CorpusKind::Log, 20_000).to_string(), "log-20k");
    assert_eq!(corpus("memories-50").file_name(), "memories-50.jsonl");
    for name in ["memories", "memories-", "memories-x", "notes-50", "log-k", "-50"] {
        assert!(name.parse::<CorpusId>().is_err(), "{name}");
    }
}

#[test]
fn the_records_of_a_smaller_corpus_are_the_first_of_a_larger_one() {
    let pairs = [
        ("memories-50", "memories-200"),
        ("issues-50", "issues-200"),
        ("log-2k", "log-3k"),
        ("map-200", "map-300"),
    ];
    for (small, large) in pairs {
        let (small, large) = (corpus(small).records().unwrap(), corpus(large).records().unwrap());
        assert!(small.len() < large.len());
        assert_eq!(small[..], large[..small.len()]);
    }
    assert!(corpus("memories-200").bytes.starts_with(&corpus("memories-50").bytes));
    assert!(corpus("log-3k").bytes.starts_with(&corpus("log-2k").bytes));
}

#[test]
fn a_corpus_has_as_many_records_as_its_name_says_and_each_its_own_id() {
    for (name, field) in [("memories-500", "id"), ("issues-500", "key"), ("map-2000", "key")] {
        let corpus = corpus(name);
        let records = corpus.records().unwrap();
        let ids: BTreeSet<&str> =
            records.iter().map(|record| record[field].as_str().unwrap()).collect();
        assert_eq!((records.len(), ids.len()), (corpus.id.size, corpus.id.size), "{name}");
    }
    let log = corpus("log-20k");
    let text = log.text().unwrap();
    let requests: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once(" req=")?.1.split(' ').next()).collect();
    assert_eq!((text.lines().count(), requests.len()), (20_000, 20_000));
}

/// Spec 3.2: mean 155 ± 5 tokens per memory at full detail.
#[test]
fn a_memory_has_155_tokens_on_average() {
    for size in [50, 200, 500, 5_000] {
        let corpus = generate(corpus_id(CorpusKind::Memories, size));
        let tokens: u64 = corpus
            .text()
            .unwrap()
            .lines()
            .map(|line| O200k.count_till(line, u64::MAX).unwrap().unwrap().0)
            .sum();
        let hundredths = tokens * 100 / size as u64;
        assert!((15_000..=16_000).contains(&hundredths), "{size}: {hundredths} / 100");
    }
}

#[test]
fn memories_are_written_as_mif_writes_them() {
    let corpus = corpus("memories-200");
    for line in corpus.text().unwrap().lines() {
        assert_eq!(Memory::from_json(line).unwrap().to_json(), line);
    }
}

#[test]
fn memories_vary_as_specified() {
    let memories = memories(500);
    let types: BTreeSet<&str> = memories.iter().map(|memory| memory.memory_type.as_str()).collect();
    assert_eq!(types.len(), 3);
    let namespaces: BTreeSet<&str> =
        memories.iter().filter_map(|memory| Some(memory.namespace.as_ref()?.as_str())).collect();
    assert!(namespaces.len() >= 7, "{namespaces:?}");
    // A prefix as a string and a prefix of segments must be the same: a question may say either.
    for namespace in &namespaces {
        assert!(
            !namespaces.iter().any(|other| {
                other.strip_prefix(namespace).is_some_and(|rest| !rest.is_empty())
            })
        );
    }
    let mut confidences: Vec<f64> =
        memories.iter().map(|memory| memory.confidence().unwrap().get()).collect();
    confidences.sort_by(f64::total_cmp);
    assert!(confidences[0] >= 0.30 && confidences[499] <= 1.0);
    assert!((0.65..=0.75).contains(&confidences[250]), "median {}", confidences[250]);
    for annotated in [
        memories.iter().filter(|memory| memory.tags.is_some()).count(),
        memories.iter().filter(|memory| memory.entities.is_some()).count(),
        memories.iter().filter(|memory| memory.relationships.is_some()).count(),
    ] {
        assert!((270..=330).contains(&annotated), "{annotated} of 500");
    }
    let priority = |memory: &Memory, extension: &str| {
        let value = memory.extensions.as_ref()?.get(extension)?.get("priority")?;
        value.to_string().parse::<u8>().ok()
    };
    assert!(memories.iter().all(|memory| (1..=5).contains(&priority(memory, "bench").unwrap())));
    let misleading = |memory: &&Memory| {
        priority(memory, "planner").is_some_and(|other| Some(other) != priority(memory, "bench"))
    };
    assert!(memories.iter().filter(misleading).count() > 20);
}

#[test]
fn products_are_spelled_in_three_ways_and_hidden_in_longer_words() {
    let memories = memories(5_000);
    let words: BTreeSet<&str> = memories
        .iter()
        .flat_map(|memory| memory.content.split(|c: char| !c.is_alphanumeric()))
        .collect();
    for product in &PRODUCTS {
        let name = product.name;
        for spelling in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
            assert!(words.contains(spelling.as_str()), "{spelling}");
        }
        let root = name.to_lowercase();
        assert!(words.iter().any(|word| word.len() > root.len() && word.contains(&root)), "{root}");
    }
    for product in &UNMENTIONED_PRODUCTS {
        let root = product.name.to_lowercase();
        assert!(!words.iter().any(|word| word.to_lowercase() == root), "{root}");
        assert!(words.iter().any(|word| word.contains(&root)), "{root}");
        let is_in_title = |memory: &Memory| {
            memory.title.as_ref().is_some_and(|title| title.contains(product.name))
        };
        assert!(memories.iter().any(is_in_title), "{root}");
    }
}

#[test]
fn every_sentence_ends_with_its_only_full_stop() {
    for (name, field) in [("memories-500", "content"), ("issues-500", "body"), ("map-200", "notes")]
    {
        for record in corpus(name).records().unwrap() {
            let text = record[field].as_str().unwrap();
            let sentences: Vec<&str> = text.split_inclusive('.').collect();
            assert!(text.ends_with('.') && !sentences.is_empty(), "{text}");
            for sentence in &sentences[1..] {
                assert!(sentence.starts_with([' ', '\n']), "{text}");
            }
        }
    }
}

#[test]
fn b1_a_corpus_is_the_same_each_time() {
    for name in ["memories-50", "issues-50", "log-2k", "map-200"] {
        assert_eq!(sha256(&corpus(name).bytes), sha256(&corpus(name).bytes));
    }
    assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/// The larger corpora take longer: `cargo evidence corpora` compares all of them.
#[test]
fn b1_the_small_corpora_and_their_tasks_have_the_checked_in_hashes() {
    let small: Vec<CorpusId> = ALL
        .iter()
        .copied()
        .filter(|id| id.size <= if id.kind == CorpusKind::Log { 2_000 } else { 500 })
        .collect();
    assert_eq!(small.len(), 8);
    let findings = hash_findings(&Repository::open().unwrap(), &small).unwrap();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_corpus_has_a_checked_in_hash() {
    let text = Repository::open().unwrap().read(HASHES_FILE).unwrap();
    for id in ALL {
        assert!(text.contains(&format!("{id} = ")), "{id}");
    }
}
