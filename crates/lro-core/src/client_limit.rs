//! How much of a large result a client passes to its model.

use serde::{Deserialize, Serialize};

use crate::tokens::{Estimate, Method, Tokens};

/// How much of a result a client passes to its model if nothing replaces the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientLimit {
    /// All of a result up to `limit`, and `visible_bytes` of a larger one.
    Bytes {
        /// The bytes of the largest result that is passed whole.
        limit: u64,
        /// The bytes of a larger result that are passed.
        visible_bytes: u64,
    },
    /// All of a result up to `limit`, and `visible_tokens` of a larger one.
    Tokens {
        /// The tokens of the largest result that is passed whole.
        limit: Tokens,
        /// The tokens of a larger result that are passed.
        visible_tokens: Tokens,
    },
}

/// Claude Code writes an MCP result with more tokens to a file, and shows the first 2,000 characters.
const CLAUDE_CODE: ClientLimit =
    ClientLimit::Tokens { limit: Tokens(25_000), visible_tokens: Tokens(500) };
/// Codex shows the beginning and the end of a result.
const CODEX: ClientLimit = ClientLimit::cut(Tokens(10_000));
/// Gemini CLI shows so many characters.
const GEMINI_CLI: ClientLimit = ClientLimit::first_bytes(40_000);

impl ClientLimit {
    /// The limit of a client that shows the first tokens of a longer result.
    pub const fn cut(limit: Tokens) -> Self {
        Self::Tokens { limit, visible_tokens: limit }
    }

    /// The limit of a client that shows the first bytes of a longer result.
    pub const fn first_bytes(limit: u64) -> Self {
        Self::Bytes { limit, visible_bytes: limit }
    }

    /// The limit for results of MCP servers in the client that calls itself `name`; `None` if it is not
    /// known.
    pub fn of_client(name: &str) -> Option<Self> {
        let limits = [("claude-code", CLAUDE_CODE), ("codex", CODEX), ("gemini-cli", GEMINI_CLI)];
        limits.into_iter().find(|(client, _)| name.starts_with(client)).map(|(_, limit)| limit)
    }

    /// The tokens of a result of `bytes` bytes that reach the model; `whole` is the estimate for all of it.
    pub fn apply(self, whole: Estimate, bytes: u64) -> Estimate {
        match self {
            Self::Bytes { limit, visible_bytes } if limit < bytes => {
                let visible = u128::from(visible_bytes.min(bytes));
                let tokens = u128::from(whole.tokens.0) * visible / u128::from(bytes);
                let tokens = Tokens(u64::try_from(tokens).unwrap_or(whole.tokens.0));
                Estimate { tokens, method: Method::Sampled }
            }
            Self::Tokens { limit, visible_tokens } if whole.tokens.0 > limit.0 => {
                let tokens = Tokens(visible_tokens.0.min(whole.tokens.0));
                Estimate { tokens, method: whole.method }
            }
            _ => whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(tokens: u64) -> Estimate {
        Estimate { tokens: Tokens(tokens), method: Method::Counted }
    }

    #[test]
    fn g76_only_what_the_client_would_have_shown_counts() {
        let of = |limit: ClientLimit, tokens, bytes| limit.apply(whole(tokens), bytes).tokens.0;
        assert_eq!(of(ClientLimit::first_bytes(30_000), 87_000, 348_000), 7500);
        let preview = ClientLimit::Bytes { limit: 30_000, visible_bytes: 2000 };
        assert_eq!(of(preview, 87_000, 348_000), 500);
        assert_eq!(of(preview, 7500, 30_000), 7500);
        assert_eq!(of(ClientLimit::first_bytes(400_000), 87_000, 348_000), 87_000);
        assert_eq!(of(ClientLimit::first_bytes(0), 0, 0), 0);
        let claude = ClientLimit::of_client("claude-code").unwrap();
        assert_eq!((of(claude, 25_000, 100_000), of(claude, 25_001, 100_000)), (25_000, 500));
        let codex = ClientLimit::of_client("codex-mcp-client").unwrap();
        assert_eq!((of(codex, 9000, 36_000), of(codex, 1_000_000, 4_000_000)), (9000, 10_000));
        assert_eq!(ClientLimit::of_client("unknown"), None);
    }

    #[test]
    fn a_part_of_a_counted_result_is_an_estimate() {
        assert_eq!(ClientLimit::first_bytes(10).apply(whole(100), 100).method, Method::Sampled);
        assert_eq!(ClientLimit::cut(Tokens(10)).apply(whole(100), 100).method, Method::Counted);
    }

    #[test]
    fn a_limit_has_one_form_in_events() {
        let text = |limit: ClientLimit| serde_json::to_string(&limit).unwrap();
        assert_eq!(text(ClientLimit::first_bytes(7)), r#"{"bytes":{"limit":7,"visible_bytes":7}}"#);
        let tokens = r#"{"tokens":{"limit":10,"visible_tokens":10}}"#;
        assert_eq!(text(ClientLimit::cut(Tokens(10))), tokens);
        assert_eq!(
            serde_json::from_str::<ClientLimit>(tokens).unwrap(),
            ClientLimit::cut(Tokens(10))
        );
    }
}
