//! The table view of a stored result for the user: the tools `lro_show` and `lro_page`, and their page
//! (MCP Apps).
//!
//! A model calls `lro_show` and reads how much is shown. The rows go to the page, which calls `lro_page`
//! for others. Both are for clients that show pages; a browser calls the same page and `lro_page`.

mod page;
mod tables;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use lro::Spools;
use lro::mcp::{AppHost, AppView, PAGE, SHOW, ToolOutput};
use lro_core::config::Config;
use lro_query::Cancel;
use serde_json::{Value, json};

use self::page::{Action, PageArguments};
use self::tables::{TableCache, TableKey, lock};
use crate::output::counted;

/// The URI of the page.
const URI: &str = "ui://atlatl/table.html";
/// Its media type.
const MEDIA_TYPE: &str = "text/html;profile=mcp-app";
/// The page: one file without dependencies, which connects to nothing.
pub(crate) const HTML: &str = include_str!("view/table.html");
/// The class of errors.
const ERROR: &str = "view";
/// The tables that a page may still read after others were shown.
const MAX_SHOWN: usize = 256;

/// Shows stored results in a page.
pub(crate) struct ResultView {
    tables: TableCache,
    /// The tables that were shown, if the page may read no others.
    shown: Option<Mutex<VecDeque<TableKey>>>,
}

impl ResultView {
    /// A view of the results in `spools`.
    pub(crate) fn new(spools: Spools, config: &Config) -> Self {
        Self { tables: TableCache::new(spools, config), shown: None }
    }

    /// Lets the page read only what `lro_show` has shown. Behind a proxy, the pages of the server's own
    /// tools can call the page's tool as well.
    pub(crate) fn only_shown(mut self) -> Self {
        self.shown = Some(Mutex::default());
        self
    }

    /// Answers a request of the page: the structured content of `lro_page`.
    pub(crate) fn page(
        &self,
        arguments: &str,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Value, String> {
        let PageArguments { address, sql, action } = PageArguments::parse(arguments)?;
        let table = self.tables.open(&address, sql.as_deref(), now, cancel)?;
        // Includes the wait for other requests of this table.
        let deadline = self.tables.deadline(cancel);
        let mut open = lock(&table, &deadline)?;
        action.run(&mut open, &deadline)
    }

    /// As [`page`](Self::page), for a page in a client.
    fn page_in_client(
        &self,
        arguments: &str,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Value, String> {
        let PageArguments { address, sql, .. } = PageArguments::parse(arguments)?;
        let key = TableKey { id: address.id(), sql };
        let is_allowed = self.shown.as_ref().is_none_or(|shown| {
            shown.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
        });
        if !is_allowed {
            return Err("this table was not shown by this server: ask to show it again".to_owned());
        }
        self.page(arguments, now, cancel)
    }

    /// Opens the table; the text is for the model. The page requests the rows itself: some clients give
    /// the model all of a tool's result.
    fn show(
        &self,
        arguments: &str,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<ToolOutput, String> {
        let PageArguments { address, sql, action } = PageArguments::parse(arguments)?;
        if !matches!(&action, Action::Rows { .. }) {
            return Err("lro_show takes ref and sql only".to_owned());
        }
        let table = self.tables.open(&address, sql.as_deref(), now, cancel)?;
        if let Some(shown) = &self.shown {
            let key = TableKey { id: address.id(), sql };
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.retain(|other| *other != key);
            shown.push_front(key);
            shown.truncate(MAX_SHOWN);
        }
        let open = lock(&table, &self.tables.deadline(cancel))?;
        let text = format!(
            "Shown to the user: {}, {}{}.",
            counted(open.table.total(), "row", "rows"),
            if open.table.has_all_columns() { "" } else { "at least " },
            counted(open.table.columns().len() as u64, "column", "columns"),
        );
        Ok(ToolOutput::success(text))
    }
}

impl AppView for ResultView {
    fn definitions(&self, host: AppHost) -> Vec<Value> {
        let text = json!({"type": "string"});
        let mut show = json!({
            "name": SHOW,
            "title": "Show a stored result",
            "description": "Show a stored large result to the user as a table (sql: the rows of a SELECT \
                            on table results). You read only how much is shown.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "ref": {"type": "string", "description": "lro:… from the descriptor"},
                    "sql": text,
                },
                "required": ["ref"],
            },
            // The second form is for earlier hosts. Pages of other tools must not call it.
            "_meta": {"ui": {"resourceUri": URI, "visibility": ["model"]}, "ui/resourceUri": URI},
        });
        if host.shows_annotated_tools {
            show["annotations"] =
                json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
        }
        let page = json!({
            "name": PAGE,
            "title": "Read rows of a shown result",
            "description": "For the table only; never call it.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "ref": text,
                    "sql": text,
                    "offset": {"type": "integer"},
                    "limit": {"type": "integer"},
                    "order": {
                        "type": "object",
                        "properties": {"column": text, "descending": {"type": "boolean"}},
                    },
                    "search": text,
                    "record": {"type": "integer"},
                    "records": {"type": "array", "items": {"type": "integer"}},
                    "counts": text,
                },
                "required": ["ref"],
            },
            // Hides it from the model.
            "_meta": {"ui": {"visibility": ["app"]}},
        });
        vec![show, page]
    }

    fn has(&self, name: &str) -> bool {
        name == SHOW || name == PAGE
    }

    fn call(&self, name: &str, arguments: &str, now: DateTime<Utc>, cancel: &Cancel) -> ToolOutput {
        let shown = if name == SHOW {
            self.show(arguments, now, cancel)
        } else {
            let page = self.page_in_client(arguments, now, cancel);
            page.map(|page| ToolOutput::success("for the table").with_structured(page))
        };
        shown.unwrap_or_else(|message| {
            ToolOutput::error(ERROR, &message, "query the result with lro_extract instead")
        })
    }

    fn resource(&self, uri: &str) -> Option<Value> {
        let ui = json!({
            // The page connects to nothing and loads nothing.
            "csp": {"connectDomains": [], "resourceDomains": []},
            "prefersBorder": true,
        });
        let contents =
            json!({"uri": URI, "mimeType": MEDIA_TYPE, "text": HTML, "_meta": {"ui": ui}});
        (uri == URI).then(|| json!({"contents": [contents]}))
    }
}
