//! Failure: a JSON-RPC error of our own.

use serde_json::json;

use crate::id::Id;

/// JSON-RPC: there is no such method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: something broke that the caller is not to blame for.
pub const INTERNAL: i32 = -32603;

/// Why a request cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The JSON-RPC code.
    pub code: i32,
    /// Our own words.
    pub message: String,
}

impl Failure {
    /// As the response to the request called `id`.
    pub fn response(&self, id: &Id) -> String {
        let error = json!({"code": self.code, "message": self.message});
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }
}
