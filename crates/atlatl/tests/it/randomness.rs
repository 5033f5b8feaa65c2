//! Where unpredictable values come from: the random numbers of the operating system, unchanged.
//!
//! A library in front of the C library gives every caller the same bytes. An identifier that consists of
//! these bytes was not derived from anything else, such as a hash of the process id.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::program::Program;
use crate::proxied::fixture_server;
use crate::reached::Listening;

/// Replaces `getrandom` of the C library.
const REPLACEMENT: &str = r"
#include <string.h>
#include <sys/types.h>
ssize_t getrandom(void *buffer, size_t length, unsigned flags) {
    (void) flags;
    memset(buffer, 0xa5, length);
    return (ssize_t) length;
}
";

/// Builds the library; the linker that Rust uses is a C compiler.
fn library(program: &Program) -> PathBuf {
    let (source, library) = (program.path("random.c"), program.path("random.so"));
    fs::write(&source, REPLACEMENT).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(built.success());
    library
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn g07_names_and_session_ids_are_random_numbers_of_the_system() {
    let program = Program::new();
    let library = library(&program);
    let program = program.variable("LD_PRELOAD", library.to_str().unwrap());

    let input = format!("[{}]", vec!["\"word\""; 20_000].join(","));
    let run = program.run_with_input(&["offload", "--json"], input.as_bytes());
    assert_eq!(run.status, 0, "{run}");
    // The last 80 of 128 bits in base 32.
    let reference = run.json()["lro"]["ref"].as_str().unwrap().to_owned();
    let random = &reference[reference.len() - 16..];
    assert_eq!(random, "MPJTB9D5MPJTB9D5", "{reference}");

    let listening = Listening::start(&program, &["--", &fixture_server()]);
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let answer = listening.asked("POST", &[], initialize);
    assert_eq!(answer.header("mcp-session-id"), Some(&*"a5".repeat(16)), "{answer:?}");
}
