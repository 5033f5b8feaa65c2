//! The built `atlatl serve`, asked by a client that is not ours.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use mif::{Detail, Memory};
use serde_json::json;
use tempfile::TempDir;
use testkit::mcp_client::{Era, Peer};
use testkit::{built, corpus};

/// A home with a store, and nothing of the machine's environment.
struct Place(TempDir);

impl Place {
    fn with(memories: &[Memory]) -> Self {
        let place = Self(TempDir::new().unwrap());
        let file = place.0.path().join("memories.jsonl");
        fs::write(&file, corpus::lines(memories, Detail::Full).join("\n")).unwrap();
        let imported =
            place.command(&["memory", "import", file.to_str().unwrap()]).output().unwrap();
        assert!(imported.status.success(), "{imported:?}");
        place
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(built::program("atlatl", "atlatl-lro"));
        let dir = self.0.path();
        command.args(args).current_dir(dir).env_clear().env("HOME", dir).env("TMPDIR", dir);
        command
    }

    fn serve(&self, era: Era, more: &[&str]) -> Peer {
        Peer::stdio(self.command(&[&["serve"], more].concat()), era)
    }
}

#[test]
fn f44_an_independent_client_captures_and_recalls() {
    for era in Era::ALL {
        let place = Place::with(&[]);
        let (one, other) = (place.serve(era, &[]), place.serve(era, &[]));
        let version = if era == Era::Modern { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(one.version(), version);
        let written = json!({"content": "The crane is red.", "memory_type": "semantic"});
        let captured = one.call("capture_memory", &written);
        // Another process has it as soon as it was acknowledged.
        let recalled = other.call("recall_memories", &json!({"query": "red crane"}));
        assert_eq!(recalled["memories"][0]["id"], captured["memory"]["id"], "{era:?}");
        assert_eq!(one.tools().len(), 12, "{era:?}");
        assert_eq!(one.resources(), 1, "{era:?}");
    }
}

#[test]
fn a5_an_independent_client_pages_through_everything_where_nothing_is_offloaded() {
    let place = Place::with(&corpus::memories(450, 2));
    for era in Era::ALL {
        let peer = place.serve(era, &["--set", "prompt.offload.enabled=false"]);
        assert_eq!(peer.tools().len(), 8, "nothing is stored, nothing to ask");
        let mut met = HashSet::new();
        let mut arguments = json!({"status": "any"});
        for page in 1.. {
            let set = peer.call("list_memories", &arguments);
            assert_eq!(set["total_matches"], 450);
            for memory in set["memories"].as_array().unwrap() {
                assert!(met.insert(memory["id"].to_string()), "twice");
            }
            let Some(cursor) = set["next_cursor"].as_str() else {
                assert_eq!((met.len(), page), (450, 9), "{era:?}");
                break;
            };
            arguments["cursor"] = cursor.into();
        }
    }
}

#[test]
fn n2_10_000_memories_are_counted_exactly_in_one_call() {
    let memories = corpus::memories(10_000, 7);
    let place = Place::with(&memories);
    let episodic = memories.iter().filter(|m| m.memory_type.to_string() == "episodic").count();
    for era in Era::ALL {
        let peer = place.serve(era, &[]);
        let set = peer.call("list_memories", &json!({"status": "any"}));
        assert_eq!(set["summary"]["count"], 10_000, "{era:?}: {set}");
        let where_episodic = "select count(*) as n from results where memory_type = 'episodic'";
        let map_episodic = "map(select(.memory_type == \"episodic\")) | length";
        for (way, asked, count) in [
            ("sql", "select count(*) as n from results", 10_000),
            ("sql", where_episodic, episodic),
            ("query", "length", 10_000),
            ("query", map_episodic, episodic),
        ] {
            let mut arguments = json!({"ref": set["lro"]["ref"], way: asked});
            if way == "query" {
                arguments["whole"] = true.into();
            }
            let said = peer.text("lro_extract", &arguments);
            // The first line says how many rows there are; what is asked for stands below it.
            let (head, answer) = said.split_once('\n').unwrap_or_else(|| panic!("{said}"));
            assert!(head.starts_with("1 of 1"), "{said}");
            let digits: String = answer.chars().filter(char::is_ascii_digit).collect();
            assert_eq!(digits, count.to_string(), "{asked}: {said}");
        }
    }
}
