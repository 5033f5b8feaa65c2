//! Span and attribute names with a bounded set of values.

use lro::mcp::Tools;
use lro_wire::{
    HEADER_MISMATCH, INTERNAL, INVALID_PARAMS, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    NO_JSON, NO_REQUEST, UNSUPPORTED_VERSION,
};

use crate::tools::Tool;

/// What OpenTelemetry calls a value that is not among those that are known.
const OTHER: &str = "_OTHER";

/// The methods that are answered, in either era.
const METHODS: [&str; 16] = [
    "completion/complete",
    "initialize",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// A method.
pub(crate) fn method(named: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == named).unwrap_or(OTHER)
}

/// A tool, if it is one of ours.
pub(crate) fn tool(named: &str) -> Option<&'static str> {
    Tool::named(named).map(Tool::name).or_else(|| Tools::named(named))
}

/// The code of an error.
pub(crate) fn code(failure: &JsonRpcError) -> &'static str {
    match failure.code {
        NO_JSON => "-32700",
        NO_REQUEST => "-32600",
        METHOD_NOT_FOUND => "-32601",
        INVALID_PARAMS => "-32602",
        INTERNAL => "-32603",
        HEADER_MISMATCH => "-32020",
        MISSING_CAPABILITY => "-32021",
        UNSUPPORTED_VERSION => "-32022",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_it_is_sent() {
        for number in [
            NO_JSON,
            NO_REQUEST,
            METHOD_NOT_FOUND,
            INVALID_PARAMS,
            INTERNAL,
            HEADER_MISMATCH,
            MISSING_CAPABILITY,
            UNSUPPORTED_VERSION,
        ] {
            assert_eq!(code(&JsonRpcError::new(number, "")), number.to_string());
        }
        assert_eq!(code(&JsonRpcError::new(-1, "")), OTHER);
    }

    #[test]
    fn what_a_client_makes_up_is_no_word() {
        assert_eq!((method("tools/call"), method("tools/calL")), ("tools/call", OTHER));
        assert_eq!(tool("recall_memories"), Some("recall_memories"));
        assert_eq!(tool("lro_extract"), Some("lro_extract"));
        assert_eq!(tool("recall_memories "), None);
    }
}
