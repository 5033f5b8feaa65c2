//! The outputs that every agent is tested with.

use serde_json::json;

use super::{Agent, ToolCall};
use crate::SplitMix64;

/// The name of the MCP server in [`Case::Mcp`], a `fixture-server --list`.
const FIXTURE_SERVER: &str = "fixture";
/// The length of the text in [`Case::Mcp`].
const MCP_BYTES: usize = 300_000;
/// The length of the output in [`Case::Binary`].
const BINARY_BYTES: usize = 200_000;
/// The file of [`Case::Binary`] in the working directory.
pub(super) const BINARY_FILE: &str = "binary.dat";
/// The script of [`Case::LargeFailure`] in the working directory.
pub(super) const FAILING_FILE: &str = "check";
pub(super) const FAILING_SCRIPT: &[u8] = b"#!/bin/sh\nseq 1 60000\nexit 3\n";

/// A kind of tool output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// A few bytes, which must reach the model unchanged.
    Small,
    /// A successful command with 348,894 bytes of output.
    LargeSuccess,
    /// A script that fails with as much output, as tests do.
    LargeFailure,
    /// A text of 300,000 bytes from an MCP server.
    Mcp,
    /// 200,000 bytes that are not text.
    Binary,
    /// A successful command with 50 MB of output.
    FiftyMegabytes,
}

impl Case {
    /// All cases.
    pub const ALL: [Self; 6] = [
        Self::Small,
        Self::LargeSuccess,
        Self::LargeFailure,
        Self::Mcp,
        Self::Binary,
        Self::FiftyMegabytes,
    ];

    /// The name in fixtures and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::LargeSuccess => "large-success",
            Self::LargeFailure => "large-failure",
            Self::Mcp => "mcp",
            Self::Binary => "binary",
            Self::FiftyMegabytes => "50-mb",
        }
    }

    /// The shell command of the case; `None` for a call of an MCP server.
    pub fn command(self) -> Option<&'static str> {
        Some(match self {
            Self::Small => "printf 'one\\ntwo\\n'",
            Self::LargeSuccess => "seq 1 60000",
            Self::LargeFailure => "./check",
            Self::Binary => "cat binary.dat",
            Self::FiftyMegabytes => "seq 1 6388888",
            Self::Mcp => return None,
        })
    }

    /// The call that produces the output.
    pub fn call(self, agent: Agent) -> ToolCall {
        match self.command() {
            Some(command) => agent.shell(command),
            None => agent.mcp(FIXTURE_SERVER, "big", json!({"bytes": MCP_BYTES})),
        }
    }

    /// The name of the MCP server that the case needs.
    pub fn server(self) -> Option<&'static str> {
        (self == Self::Mcp).then_some(FIXTURE_SERVER)
    }

    /// A question that needs the whole output.
    pub fn sql(self) -> &'static str {
        "SELECT count(*) AS n, max(length(text)) AS longest, sum(length(text)) AS characters \
         FROM results"
    }

    /// The numbers in the answer to the question; `None` for an output that is not text.
    pub fn answer(self) -> Option<Vec<String>> {
        if self == Self::Binary {
            return None;
        }
        let output = self.output();
        let text = String::from_utf8_lossy(&output);
        let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        let longest = lengths.iter().max().copied().unwrap_or_default();
        let numbers = [lengths.len(), longest, lengths.iter().sum()];
        Some(numbers.map(|number| number.to_string()).to_vec())
    }

    /// The whole output, byte for byte.
    pub fn output(self) -> Vec<u8> {
        match self {
            Self::Small => b"one\ntwo\n".to_vec(),
            Self::LargeSuccess | Self::LargeFailure => sequence(60_000),
            Self::Mcp => mcp_text(),
            Self::Binary => binary(),
            Self::FiftyMegabytes => sequence(6_388_888),
        }
    }
}

/// The output of `seq 1 LAST`.
fn sequence(last: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 1..=last {
        bytes.extend_from_slice(number.to_string().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// The text that `fixture-server` returns.
fn mcp_text() -> Vec<u8> {
    let line = b"All work and no play makes a long text out of a short sentence.\n";
    let mut bytes = line.repeat(MCP_BYTES / line.len());
    bytes.resize(MCP_BYTES, b'x');
    bytes
}

/// Bytes that are not text; the same every time.
pub(super) fn binary() -> Vec<u8> {
    let mut random = SplitMix64::new(7);
    let mut bytes = Vec::with_capacity(BINARY_BYTES + 8);
    while bytes.len() < BINARY_BYTES {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(BINARY_BYTES);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_have_the_documented_sizes() {
        let sizes = Case::ALL.map(|case| case.output().len());
        assert_eq!(sizes, [8, 348_894, 348_894, 300_000, 200_000, 50_000_000]);
        assert!(std::str::from_utf8(&Case::Binary.output()).is_err());
    }
}
