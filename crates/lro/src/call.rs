//! Call: what is known of a result before it is there.

use lro_core::Detail;

/// A call of a tool, whose result is on its way.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool, as its server calls it.
    pub tool: &'a str,
    /// The server whose tool it is, where there are several.
    pub server: Option<&'a str>,
    /// The query, where there was one.
    pub query: Option<&'a str>,
    /// The detail level that was asked for; found out from the records where nobody says.
    pub detail: Option<Detail>,
}

impl<'a> Call<'a> {
    /// A call of `tool`.
    pub fn new(tool: &'a str) -> Self {
        Self { tool, server: None, query: None, detail: None }
    }
}
