//! `atlatl memory`: memories of one person on the command line.

mod carry;
mod edit;
mod hostile;
mod import;
mod keep;
mod kills;
#[cfg(feature = "local")]
mod model;
#[cfg(feature = "local")]
mod search;
mod terminal;
mod vectors;

use mif::Memory;
use serde_json::Value;

use crate::program::{Program, Run};

/// Puts memories into a store of the program's surroundings.
fn import(program: &Program, memories: &[Memory], store: &str) -> Value {
    let lines: Vec<String> = memories.iter().map(Memory::to_json).collect();
    let set = format!("memory.store=sqlite:{store}");
    let args = ["--set", &set, "memory", "import", "-", "--json"];
    program.run_with_input(&args, lines.join("\n").as_bytes()).json()
}

/// All memories of a store.
fn exported(program: &Program, store: &str) -> Vec<Memory> {
    let set = format!("memory.store=sqlite:{store}");
    let run = program.run(&["--set", &set, "memory", "export"]);
    assert_eq!(run.status, 0, "{run}");
    run.stdout.lines().map(|line| Memory::from_json(line).unwrap()).collect()
}

/// The counts of an import.
fn counts(summary: &Value) -> [u64; 5] {
    ["stored", "unchanged", "kept", "replaced", "failed"]
        .map(|name| summary[name].as_u64().unwrap())
}

/// Adds a memory and gives its id.
fn add(program: &Program, args: &[&str]) -> String {
    let run = program.run(&[&["memory", "add", "--json"], args].concat());
    assert_eq!(run.status, 0, "{run}");
    run.json()["id"].as_str().unwrap().to_owned()
}

/// What changes from run to run, made the same.
fn steady(run: &Run, ids: &[&str]) -> String {
    let mut text = run.to_string();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(id, &format!("[ID {}]", number + 1));
        text = text.replace(&id[..13], &format!("[{}]", number + 1));
    }
    // A busy machine may take a few seconds from command to command.
    for seconds in 1..10 {
        text = text.replace(&format!("{seconds} s ago"), "0 s ago");
    }
    text.lines()
        .map(|line| match line.split_once("  ") {
            Some((label @ ("created" | "modified"), _)) => format!("{label:11}[TIME]\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}
