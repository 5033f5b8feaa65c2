//! Memories for tests and benchmarks.

mod sentences;

use chrono::DateTime;
use mif::{
    Detail, Memory, MemoryId, MemoryType, Namespace, Provenance, SourceType, Status, Timestamp,
    TrustLevel, UnitInterval,
};
use serde_json::json;

use crate::random::SplitMix64;

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
pub fn lines(memories: &[Memory], detail: Detail) -> Vec<String> {
    memories.iter().map(|memory| memory.to_line(detail)).collect()
}

fn memory(time: u64, random: &mut SplitMix64) -> Memory {
    let namespace = *random.pick(&Namespace::WELL_KNOWN);
    let memory_type = type_in(namespace, random);
    let text = sentences::text(memory_type, random);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(
            lines(&memories(100, 42), Detail::Full),
            lines(&memories(100, 42), Detail::Full)
        );
        assert_ne!(lines(&memories(9, 42), Detail::Full), lines(&memories(9, 43), Detail::Full));
    }

    /// A change of the corpus changes every published measurement: it must be meant.
    #[test]
    fn the_benchmark_corpus_is_pinned() {
        let text = lines(&memories(500, 42), Detail::Full).join("\n");
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
            lines(&memories, Detail::Full).iter().map(|line| line.chars().count()).sum();
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
