//! The tokens of descriptors, counted by the tokenizer of the models.

use std::sync::Arc;

use lro::{Delivered, IdSeed, Offloader, ToolCall};
use lro_core::config::Config;
use lro_core::{Extraction, O200k, Tokenizer as _, Tokens};
use lro_spool::{DirOptions, DirSpool, Quota, Spool};
use mif::DetailLevel;
use serde_json::Value;
use tempfile::TempDir;

use crate::any_result::Body;
use crate::fixture::now;
use crate::kinds::{self, Kind};

fn tokens(text: &str) -> u64 {
    let Some(Tokens(tokens)) = O200k.count_till(text, u64::MAX).unwrap() else { panic!("{text}") };
    tokens
}

/// The descriptor that a client gets for a result at default settings, whatever its size.
pub(crate) fn descriptor(
    spool: Arc<dyn Spool>,
    tool: &str,
    body: &Body,
    extraction: Extraction,
) -> String {
    let mut config = Config::default();
    config.proxy.threshold_tokens = 1;
    config.prompt.offload.threshold_tokens = 1;
    let offloader =
        Offloader::new(spool, &config).with_tokenizer(O200k).with_extraction(extraction);
    let seed = IdSeed { now: now(), random: 1 };
    let delivered = body.with(|body| offloader.deliver_result(ToolCall::new(tool), body, seed));
    let Delivered::Offloaded(offloaded) = delivered else { panic!("{tool}: {delivered:?}") };
    offloaded.descriptor
}

/// A directory with a path of the usual length, and the descriptor of a result in it.
pub(crate) fn stored(kind: &Kind, extraction: Extraction) -> (TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("user/.local/state/atlatl/results");
    std::fs::create_dir_all(&path).unwrap();
    let options = DirOptions::private().quota(Quota::NONE);
    let spool = Arc::new(DirSpool::open(&path.join("spool"), options).unwrap());
    let text = descriptor(spool, kind.tool, &kind.body, extraction);
    // The name of a temporary directory is longer than that of a home directory.
    let text = text.replace(home.path().to_str().unwrap(), "/home");
    (home, text)
}

/// The tokens of a descriptor without these members of `lro`.
fn tokens_without(descriptor: &str, members: &[&str]) -> u64 {
    let mut value: Value = serde_json::from_str(descriptor).unwrap();
    for member in members {
        value["lro"].as_object_mut().unwrap().shift_remove(*member);
    }
    tokens(&value.to_string())
}

#[test]
fn g15_compact_descriptors_stay_within_their_size() {
    let kinds: Vec<Kind> =
        kinds::common().into_iter().chain(kinds::in_text()).chain(kinds::worst()).collect();
    assert!(kinds.len() >= 20);
    let mut too_large = Vec::new();
    for kind in &kinds {
        for extraction in [Extraction::Native, Extraction::Shell] {
            let (_home, text) = stored(kind, extraction);
            let all = tokens(&text);
            let core = tokens_without(&text, &["preview", "preview_cut", "around", "notes"]);
            let outside = all - tokens_without(&text, &["around", "notes"]);
            if core > 400 || all > 850 {
                too_large.push(format!(
                    "{} ({extraction:?}): {core} without preview, around and notes, {all} in all, \
                     {outside} around and notes: {text}",
                    kind.name
                ));
            }
        }
    }
    assert!(too_large.is_empty(), "{}", too_large.join("\n"));
}

#[test]
fn full_descriptors_of_memories_stay_within_their_size() {
    for (detail, limit) in [(DetailLevel::Light, 1200), (DetailLevel::Full, 1400)] {
        for extraction in [Extraction::Native, Extraction::Shell] {
            let (_home, text) = stored(&kinds::memories(detail), extraction);
            assert!(text.contains("jq_recipes"), "{text}");
            let size = tokens_without(&text, &["preview", "preview_cut"]);
            assert!(size <= limit, "{detail:?} {extraction:?}: {size} of {limit}: {text}");
        }
    }
}
