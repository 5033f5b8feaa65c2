//! JSON-RPC errors.

use serde_json::{Value, json};

use crate::id::Id;

/// JSON-RPC: what came is no JSON.
pub const NO_JSON: i32 = -32700;
/// JSON-RPC: what came is no request.
pub const NO_REQUEST: i32 = -32600;
/// JSON-RPC: there is no such method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the parameters are wrong.
pub const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: something broke that the caller is not to blame for.
pub const INTERNAL: i32 = -32603;
/// MCP: a header says something else than the body.
pub const HEADER_MISMATCH: i32 = -32020;
/// MCP: the client lacks what the request needs.
pub const MISSING_CAPABILITY: i32 = -32021;
/// MCP: the version is not spoken here.
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// Why a request cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonRpcError {
    /// The JSON-RPC code.
    pub code: i32,
    /// Our own words.
    pub message: String,
    /// What a program can read of it.
    pub data: Option<Value>,
}

impl JsonRpcError {
    /// A failure of this kind.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds what a program can read of it.
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// As the response to the request called `id`.
    pub fn response(&self, id: &Id) -> String {
        let error = self.error();
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }

    /// As the response to what has no id.
    pub fn without_id(&self) -> String {
        format!(r#"{{"jsonrpc":"2.0","error":{}}}"#, self.error())
    }

    /// The member `error` of a response.
    pub fn error(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}
