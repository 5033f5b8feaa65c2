//! Whole descriptors of common kinds of results, as a model reads them.

use std::fmt::Write as _;

use lro_core::Extraction;
use mif::DetailLevel;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::descriptor_sizes::stored;
use crate::kinds::{self, Kind};

/// The members of an object in their order, with their lexemes.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The descriptor of `kind` with one member per line, the members of objects below them. The
/// directory is replaced; the reference and the time are constant.
fn readable(kind: &Kind) -> String {
    let (home, text) = stored(kind, Extraction::Native);
    let text = text.replace(home.path().to_str().unwrap(), "/home");
    let Members(members) = serde_json::from_str(&text).unwrap();
    let mut out = String::new();
    for (name, value) in members {
        match serde_json::from_str::<Members>(value.get()) {
            Ok(Members(inner)) => {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{name}:");
                for (name, value) in inner {
                    let _ = writeln!(out, "  {name}: {value}");
                }
            }
            Err(_) => {
                let _ = writeln!(out, "{name}: {value}");
            }
        }
    }
    out
}

/// Reviewed: each is what a model reads about a result of that kind.
#[test]
fn g15_descriptors_read_as_reviewed() {
    for kind in kinds::common().into_iter().chain(kinds::in_text()) {
        insta::assert_snapshot!(kind.name.replace(' ', "_"), readable(&kind));
    }
    for detail in [DetailLevel::Light, DetailLevel::Full] {
        insta::assert_snapshot!(format!("memories_{detail:?}"), readable(&kinds::memories(detail)));
    }
}
