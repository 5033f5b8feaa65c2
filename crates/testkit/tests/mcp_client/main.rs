//! The built `atlatl serve` with an independent MCP client.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use mif::{DetailLevel, Memory};
use serde_json::json;
use tempfile::TempDir;
use testkit::corpus;
use testkit::mcp_client::{Lifecycle, Peer};
use testkit::tool::built_program;

/// A home directory with a memory store, isolated from the machine's environment.
struct Home(TempDir);

impl Home {
    fn with(memories: &[Memory]) -> Self {
        let home = Self(TempDir::new().unwrap());
        let file = home.0.path().join("memories.jsonl");
        fs::write(&file, corpus::lines(memories, DetailLevel::Full).join("\n")).unwrap();
        let imported =
            home.command(&["memory", "import", file.to_str().unwrap()]).output().unwrap();
        assert!(imported.status.success(), "{imported:?}");
        home
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(built_program("atlatl", "atlatl-lro"));
        let dir = self.0.path();
        command.args(args).current_dir(dir).env_clear().env("HOME", dir).env("TMPDIR", dir);
        command
    }

    fn serve(&self, lifecycle: Lifecycle, more: &[&str]) -> Peer {
        Peer::stdio(self.command(&[&["serve"], more].concat()), lifecycle)
    }
}

#[test]
fn f44_an_independent_client_captures_and_recalls() {
    for lifecycle in Lifecycle::ALL {
        let home = Home::with(&[]);
        let (one, other) = (home.serve(lifecycle, &[]), home.serve(lifecycle, &[]));
        let version = if lifecycle == Lifecycle::Discover { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(one.version(), version);
        let written = json!({"content": "The crane is red.", "memory_type": "semantic"});
        let captured = one.call("capture_memory", &written);
        // Another process reads it as soon as it was acknowledged.
        let recalled = other.call("recall_memories", &json!({"query": "red crane"}));
        assert_eq!(recalled["memories"][0]["id"], captured["memory"]["id"], "{lifecycle:?}");
        assert_eq!(one.tools().len(), 12, "{lifecycle:?}");
        assert_eq!(one.resources(), 1, "{lifecycle:?}");
    }
}

#[test]
fn a5_an_independent_client_pages_through_everything_where_nothing_is_offloaded() {
    let home = Home::with(&corpus::memories(450, 2));
    for lifecycle in Lifecycle::ALL {
        let peer = home.serve(lifecycle, &["--set", "prompt.offload.enabled=false"]);
        assert_eq!(peer.tools().len(), 8, "nothing is stored, nothing to ask");
        let mut seen_ids = HashSet::new();
        let mut arguments = json!({"status": "any"});
        for page in 1.. {
            let set = peer.call("list_memories", &arguments);
            assert_eq!(set["total_matches"], 450);
            for memory in set["memories"].as_array().unwrap() {
                assert!(seen_ids.insert(memory["id"].to_string()), "twice");
            }
            let Some(cursor) = set["next_cursor"].as_str() else {
                assert_eq!((seen_ids.len(), page), (450, 9), "{lifecycle:?}");
                break;
            };
            arguments["cursor"] = cursor.into();
        }
    }
}

#[test]
fn n2_10_000_memories_are_counted_exactly_in_one_call() {
    let memories = corpus::memories(10_000, 7);
    let home = Home::with(&memories);
    let episodic = memories.iter().filter(|m| m.memory_type.to_string() == "episodic").count();
    for lifecycle in Lifecycle::ALL {
        let peer = home.serve(lifecycle, &[]);
        let set = peer.call("list_memories", &json!({"status": "any"}));
        assert_eq!(set["summary"]["count"], 10_000, "{lifecycle:?}: {set}");
        let where_episodic = "select count(*) as n from results where memory_type = 'episodic'";
        let map_episodic = "map(select(.memory_type == \"episodic\")) | length";
        for (way, query, count) in [
            ("sql", "select count(*) as n from results", 10_000),
            ("sql", where_episodic, episodic),
            ("query", "length", 10_000),
            ("query", map_episodic, episodic),
        ] {
            let mut arguments = json!({"ref": set["lro"]["ref"], way: query});
            if way == "query" {
                arguments["whole"] = true.into();
            }
            let reply = peer.text("lro_extract", &arguments);
            // The first line has the number of rows; the rows follow.
            let (head, answer) = reply.split_once('\n').unwrap_or_else(|| panic!("{reply}"));
            assert!(head.starts_with("1 of 1"), "{reply}");
            let digits: String = answer.chars().filter(char::is_ascii_digit).collect();
            assert_eq!(digits, count.to_string(), "{query}: {reply}");
        }
    }
}
