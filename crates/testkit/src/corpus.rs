//! Generated memories for tests and benchmarks.

use chrono::DateTime;
use mif::{
    DetailLevel, Memory, MemoryId, MemoryType, Namespace, Provenance, SourceType, Status,
    Timestamp, TrustLevel, UnitInterval,
};
use serde_json::json;

use super::random::SplitMix64;

/// 2026-01-05T08:00:00Z, a Monday.
const START_MILLISECONDS: u64 = 1_767_600_000_000;
const MINUTE: u64 = 60_000;

/// Makes `n` realistic memories, each about 155 tokens (620 characters of JSON) at full detail.
///
/// They have a title, a namespace of the specification, tags, a confidence and a priority
/// (`extensions.bench.priority`, 1 to 5) each. Creation times rise with the index, and every tenth
/// memory has the same one as its predecessor, so that sorting by time has ties.
pub fn memories(n: usize, seed: u64) -> Vec<Memory> {
    let mut random = SplitMix64::new(seed);
    let mut time = START_MILLISECONDS;
    (0..n)
        .map(|i| {
            if i % 10 != 9 {
                time += MINUTE * (1 + random.next_u64() % 90);
            }
            memory(time, &mut random)
        })
        .collect()
}

/// Makes the same memories with title, namespace, tags and confidence missing here and there: each
/// of the 16 combinations once in every 16 memories.
pub fn sparse_memories(n: usize, seed: u64) -> Vec<Memory> {
    let mut memories = memories(n, seed);
    for (i, memory) in memories.iter_mut().enumerate() {
        if i & 1 != 0 {
            memory.title = None;
        }
        if i & 2 != 0 {
            memory.namespace = None;
        }
        if i & 4 != 0 {
            memory.tags = None;
        }
        if i & 8 != 0 {
            // Both ways to have no confidence: no provenance, and provenance without it.
            if i & 16 == 0 {
                memory.provenance = None;
            } else if let Some(provenance) = &mut memory.provenance {
                provenance.confidence = None;
            }
        }
    }
    memories
}

/// Writes each memory at a level as one line of compact JSON, without line breaks.
pub fn lines(memories: &[Memory], detail: DetailLevel) -> Vec<String> {
    memories.iter().map(|memory| memory.to_line(detail)).collect()
}

fn memory(time: u64, random: &mut SplitMix64) -> Memory {
    let namespace = *random.pick(&Namespace::WELL_KNOWN);
    let memory_type = type_in(namespace, random);
    let text = text(memory_type, random);
    let mut bits = [0; 10];
    bits[..8].copy_from_slice(&random.next_u64().to_be_bytes());
    bits[8..].copy_from_slice(&random.next_u64().to_be_bytes()[..2]);
    let mut memory =
        Memory::new(MemoryId::v7(time, bits), memory_type, text.content, timestamp(time))
            .expect("the sentences are neither empty nor long");
    memory.title = Some(text.title);
    memory.namespace = Some(namespace.parse().expect("the specification's namespaces are valid"));
    memory.tags = Some(text.tags);
    if random.chance(40) {
        memory.modified = Some(timestamp(time + MINUTE * (1 + random.next_u64() % 5000)));
    }
    memory.status = Some(match random.below(20) {
        0 | 1 => Status::Archived,
        2 => Status::Superseded,
        3 => Status::Deleted,
        _ => Status::Active,
    });
    memory.provenance = Some(provenance(random));
    let mut extensions = mif::Map::new();
    extensions.insert("bench".to_owned(), json!({"priority": 1 + random.below(5)}).into());
    memory.extensions = Some(extensions);
    memory
}

fn type_in(namespace: &str, random: &mut SplitMix64) -> MemoryType {
    match namespace.split('/').next() {
        Some("_semantic") => MemoryType::Semantic,
        Some("_episodic") => MemoryType::Episodic,
        Some("_procedural") => MemoryType::Procedural,
        _ => *random.pick(MemoryType::ALL),
    }
}

fn provenance(random: &mut SplitMix64) -> Provenance {
    let mut provenance = Provenance::default();
    let hundredths = u32::try_from(30 + random.below(70)).expect("less than 100");
    provenance.confidence = UnitInterval::new(f64::from(hundredths) / 100.0);
    provenance.source_type = Some(
        random
            .pick(&[SourceType::UserExplicit, SourceType::AgentInferred, SourceType::UserImplicit])
            .clone(),
    );
    provenance.trust_level = Some(match hundredths {
        90.. => TrustLevel::Verified,
        75.. => TrustLevel::HighConfidence,
        50.. => TrustLevel::ModerateConfidence,
        _ => TrustLevel::LowConfidence,
    });
    provenance
}

fn timestamp(unix_milliseconds: u64) -> Timestamp {
    let milliseconds = i64::try_from(unix_milliseconds).expect("far from the end of time");
    DateTime::from_timestamp_millis(milliseconds).expect("far from the end of time").into()
}

struct MemoryText {
    title: String,
    content: String,
    tags: Vec<String>,
}

/// `{s}` is a service, `{p}` a person, `{t}` a tool, `{n}` a number.
const SEMANTIC: &[(&str, &str)] = &[
    (
        "{s} keeps its data in {t}",
        "The {s} service stores its records in {t}, one schema for each customer.",
    ),
    (
        "{p} owns {s}",
        "{p} is responsible for the {s} service and answers questions about it on weekdays.",
    ),
    (
        "{s} allows {n} requests per second",
        "The {s} service refuses more than {n} requests per second from one client.",
    ),
    ("{p} prefers {t}", "{p} prefers {t} for daily work and asks that examples be written for it."),
    (
        "{t} was chosen for {s}",
        "The team chose {t} for {s} because the alternatives needed more memory.",
    ),
    (
        "{s} speaks version {n} of the protocol",
        "Since the spring release {s} only accepts version {n} of the wire protocol.",
    ),
    (
        "Backups of {s} are kept {n} days",
        "Backups of {s} are made with {t} every night and kept for {n} days.",
    ),
];
const EPISODIC: &[(&str, &str)] = &[
    (
        "{s} was down for {n} minutes",
        "On Tuesday the {s} service was unreachable for {n} minutes after a bad deployment.",
    ),
    (
        "{p} and the slow query in {s}",
        "{p} found that a missing index in {t} made every request to {s} take {n} milliseconds.",
    ),
    (
        "Planning session about {s}",
        "In the planning session {p} proposed to split {s} in two and to retire {t}.",
    ),
    (
        "The migration of {s} stopped",
        "The migration of {s} stopped at row {n} because {t} ran out of disk space.",
    ),
    (
        "{p} could not reach {t}",
        "{p} was blocked for {n} hours because the certificate of {t} had expired.",
    ),
    ("Load test of {s}", "The load test of {s} ended after {n} seconds with errors from {t}."),
];
const PROCEDURAL: &[(&str, &str)] = &[
    (
        "How to restart {s}",
        "To restart {s}, drain it first, wait {n} seconds, then start it again with {t}.",
    ),
    (
        "How to rotate the keys of {s}",
        "Make a new key with {t}, publish it to {s}, wait {n} minutes, and retire the old key.",
    ),
    (
        "Moving {s} to {t}",
        "Copy the data of {s} to {t} in batches of {n}, compare the counts, then switch the reads.",
    ),
    (
        "How {p} reviews changes to {s}",
        "{p} reviews changes to {s} in two passes and asks for a test when more than {n} lines change.",
    ),
    (
        "Retry with a limit in {s}",
        "Calls from {s} to {t} are retried at most {n} times, each time after twice the pause.",
    ),
    (
        "How to restore {s} from a backup",
        "Stop {s}, load the newest backup with {t}, replay {n} minutes of the log, and start it.",
    ),
];
const MORE: &[&str] = &[
    "Ask {p} before changing this.",
    "The dashboard shows it under \"{s} health\".",
    "It was written down after the review with {p}.",
    "See [[{t}]] for the details.",
    "The limit of {n} is enforced in the gateway, not here.",
    "Nobody has measured it since the move to {t}.",
    "Steps:\n1. look at {s}\n2. look at {t}\n3. tell {p}",
    "Numbers:\tbefore {n}, after less than half.",
    "The naïve approach was tried at the café meeting and failed.",
    "The customer in Tokyo (東京, 日本) depends on it.",
    "It costs about {n} € a month — acceptable, said {p}.",
    "This replaces the note from last year.",
    "The tests cover it only in part.",
    "If it fails, {s} falls back to the cached answer.",
];
const SERVICES: &[&str] = &[
    "billing",
    "search",
    "checkout",
    "inventory",
    "mail",
    "reports",
    "login",
    "catalog",
    "audit",
    "shipping",
    "export",
    "pricing",
    "alerts",
    "uploads",
    "payments",
    "profile",
];
const PEOPLE: &[&str] = &[
    "Ana Lim",
    "Jürgen Weiß",
    "Olu Adeyemi",
    "Mei Tanaka",
    "Priya Nair",
    "Lucía Gómez",
    "Tom Reed",
    "Ewa Król",
    "Sam O'Neil",
    "Noor Haddad",
];
const TOOLS: &[&str] = &[
    "Postgres",
    "Redis",
    "Kafka",
    "Terraform",
    "Grafana",
    "Nginx",
    "SQLite",
    "Ansible",
    "Vault",
    "Docker",
    "Consul",
    "Jenkins",
];
const TAGS: &[&str] = &[
    "database",
    "deployment",
    "security",
    "performance",
    "customer",
    "cost",
    "team",
    "network",
    "monitoring",
    "release",
    "backup",
    "api",
];

fn text(memory_type: MemoryType, random: &mut SplitMix64) -> MemoryText {
    let templates = match memory_type {
        MemoryType::Episodic => EPISODIC,
        MemoryType::Procedural => PROCEDURAL,
        _ => SEMANTIC,
    };
    let (title, sentence) = random.pick(templates);
    let service = *random.pick(SERVICES);
    let cast = Cast::new(service, random);
    let mut title = cast.fill(title);
    if random.chance(8) {
        let odd = ["\"urgent\"", "a\ttab", "two\nlines", "über alles", "☃ winter", "C:\\temp"];
        title = format!("{title} {}", random.pick(&odd));
    }
    let mut content = cast.fill(sentence);
    for _ in 0..2 + random.below(3) {
        content.push(if random.chance(15) { '\n' } else { ' ' });
        let more = *random.pick(MORE);
        content.push_str(&Cast::new(service, random).fill(more));
    }
    let mut tags = vec![service.to_owned()];
    for _ in 0..random.below(3) {
        let tag = (*random.pick(TAGS)).to_owned();
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    MemoryText { title, content, tags }
}

/// Who and what a sentence is about; title and first sentence are about the same.
struct Cast {
    service: &'static str,
    person: &'static str,
    tool: &'static str,
    number: String,
}

impl Cast {
    fn new(service: &'static str, random: &mut SplitMix64) -> Self {
        let (person, tool) = (*random.pick(PEOPLE), *random.pick(TOOLS));
        Self { service, person, tool, number: (2 + random.below(998)).to_string() }
    }

    fn fill(&self, template: &str) -> String {
        template
            .replace("{s}", self.service)
            .replace("{p}", self.person)
            .replace("{t}", self.tool)
            .replace("{n}", &self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(
            lines(&memories(100, 42), DetailLevel::Full),
            lines(&memories(100, 42), DetailLevel::Full)
        );
        assert_ne!(
            lines(&memories(9, 42), DetailLevel::Full),
            lines(&memories(9, 43), DetailLevel::Full)
        );
    }

    /// A change of the corpus changes every published measurement: it must be meant.
    #[test]
    fn the_benchmark_corpus_is_pinned() {
        let text = lines(&memories(500, 42), DetailLevel::Full).join("\n");
        let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        assert_eq!((text.len(), fnv), (308_833, 299_660_013_986_843_238));
    }

    #[test]
    fn memories_are_valid_distinct_and_of_the_promised_size() {
        let memories = memories(500, 42);
        let ids: BTreeSet<_> = memories.iter().map(|m| m.id.clone()).collect();
        assert_eq!(ids.len(), 500);
        let times: BTreeSet<_> = memories.iter().map(|m| m.created.instant()).collect();
        assert_eq!(times.len(), 450, "every tenth is a tie");
        let namespaces: BTreeSet<_> = memories.iter().map(|m| m.namespace.clone()).collect();
        assert_eq!(namespaces.len(), Namespace::WELL_KNOWN.len());
        for memory in &memories {
            assert_eq!(Memory::from_json(&memory.to_json()).as_ref(), Ok(memory));
        }
        let characters: usize =
            lines(&memories, DetailLevel::Full).iter().map(|line| line.chars().count()).sum();
        let mean = characters / memories.len();
        assert!((590..=650).contains(&mean), "{mean} characters of JSON on average");
    }

    #[test]
    fn some_text_is_awkward() {
        let memories = memories(200, 42);
        for wanted in ['"', '\n', '\t', 'é', '日'] {
            assert!(memories.iter().any(|m| m.content.contains(wanted)), "content: {wanted:?}");
        }
        for wanted in ['"', '\t', '\n', 'ü'] {
            let in_title =
                |m: &Memory| m.title.as_ref().is_some_and(|title| title.contains(wanted));
            assert!(memories.iter().any(in_title), "title: {wanted:?}");
        }
    }

    #[test]
    fn sparse_memories_lack_every_combination() {
        let combinations: BTreeSet<_> = sparse_memories(64, 42)
            .iter()
            .map(|m| {
                [
                    m.title.is_some(),
                    m.namespace.is_some(),
                    m.tags.is_some(),
                    m.confidence().is_some(),
                ]
            })
            .collect();
        assert_eq!(combinations.len(), 16);
    }
}
