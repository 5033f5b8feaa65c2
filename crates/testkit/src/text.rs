//! Sample texts for measuring token estimates: at least 20 KB each, in several scripts and forms.

mod prose;
mod source;

use mif::{Detail, Value};

use crate::{corpus, random::SplitMix64};

/// The least size of a sample, in bytes.
const SIZE: usize = 20 * 1024;
const SEED: u64 = 42;

/// Returns English prose.
pub fn english() -> String {
    assemble(prose::ENGLISH, " ", "\n\n")
}

/// Returns Chinese prose.
pub fn chinese() -> String {
    assemble(prose::CHINESE, "", "\n\n")
}

/// Returns Japanese prose.
pub fn japanese() -> String {
    assemble(prose::JAPANESE, "", "\n\n")
}

/// Returns Arabic prose.
pub fn arabic() -> String {
    assemble(prose::ARABIC, " ", "\n\n")
}

/// Returns source code in three languages.
pub fn source_code() -> String {
    source::code(SIZE, SEED)
}

/// Returns memories as lines of compact JSON.
pub fn json_lines() -> String {
    let lines = corpus::lines(&corpus::memories(48, SEED), Detail::Full);
    lines.join("\n") + "\n"
}

/// Returns the same memories as one indented JSON array.
pub fn json_pretty() -> String {
    let memories = corpus::memories(48, SEED);
    let records: Value =
        memories.iter().map(|memory| Value::Object(memory.at(Detail::Full))).collect();
    format!("{records:#}\n")
}

/// Strings sentences together into paragraphs. A sentence is not repeated within the last few, so
/// that the text does not compress to nothing.
fn assemble(sentences: &[&str], space: &str, paragraph: &str) -> String {
    let mut random = SplitMix64::new(SEED);
    let mut recent = Vec::new();
    let mut text = String::new();
    while text.len() < SIZE {
        for i in 0..4 + random.below(4) {
            let choice = loop {
                let choice = random.below(sentences.len());
                if !recent.contains(&choice) {
                    break choice;
                }
            };
            recent.push(choice);
            if recent.len() > sentences.len() / 2 {
                recent.remove(0);
            }
            text.push_str(if i == 0 { "" } else { space });
            text.push_str(sentences[choice]);
        }
        text.push_str(paragraph);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_large_enough_and_always_the_same() {
        for sample in [english, source_code, chinese, japanese, arabic, json_lines, json_pretty] {
            let text = sample();
            assert!(text.len() >= SIZE, "{}: {}", text.len(), &text[..40]);
            assert_eq!(text, sample());
        }
    }

    #[test]
    fn json_samples_are_json() {
        for line in json_lines().lines() {
            assert!(mif::Memory::from_json(line).is_ok());
        }
        assert!(serde_json::from_str::<Vec<mif::Memory>>(&json_pretty()).is_ok());
    }
}
