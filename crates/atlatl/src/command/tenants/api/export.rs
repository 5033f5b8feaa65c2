//! The export of a tenant's memories over HTTP.

use std::sync::Arc;

use atlatl_memory::StoreError;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use futures_util::stream;
use lro_http::Problem;

use super::{Actor, Api, Reply, TenantSegment, store_problem};
use crate::command::memory::export::{MemoryPages, json_line};
use crate::error::log_message;
use crate::memory_config::moment;
use crate::output::Output;

/// An export in progress.
struct Export {
    pages: MemoryPages,
    /// The first page, which is loaded before the response begins.
    first: Option<Bytes>,
}

/// Streams the memories of a tenant as `atlatl memory export` writes them. No more than two pages are in
/// memory: the next one is loaded when the client has read.
pub(super) async fn export_tenant(
    State(api): State<Arc<Api>>,
    Extension(actor): Extension<Actor>,
    TenantSegment(tenant): TenantSegment,
) -> Reply {
    let Some(database) = &api.export else {
        let detail = "this process exports no memories: start it with --export, and the login of \
                      a server in memory.store";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, detail));
    };
    // A tenant that does not exist has no memories: its export would be empty.
    if database.find_tenant(&tenant).await.map_err(store_problem)?.is_none() {
        return Err(Problem::missing());
    }
    let store = database.tenant(&tenant).map_err(store_problem)?;
    // Before the first byte, since an interrupted export shows memories too.
    api.audit(&actor, &tenant, "GET /v1/tenants/{tenant}/export".to_owned());
    let mut pages = MemoryPages::all(Arc::new(store), moment().now);
    let first = next_lines(&mut pages).await.map_err(store_problem)?;
    let lines = stream::try_unfold(Export { pages, first }, next_chunk);
    let json_lines = [(header::CONTENT_TYPE, "application/jsonl")];
    Ok((json_lines, Body::from_stream(lines)).into_response())
}

/// Returns the next chunk of an export. After an error the connection is closed before the end of the
/// response, so that a client notices that memories are missing.
async fn next_chunk(mut export: Export) -> Result<Option<(Bytes, Export)>, StoreError> {
    let mut next = export.first.take();
    if next.is_none() {
        next = next_lines(&mut export.pages).await.inspect_err(|error| {
            Output::remark(format_args!("an export failed: {}", log_message(error)));
        })?;
    }
    Ok(next.map(|lines| (lines, export)))
}

/// Returns the lines of the next page; `None` after the last one.
async fn next_lines(pages: &mut MemoryPages) -> Result<Option<Bytes>, StoreError> {
    let memories = pages.next_page().await?.filter(|memories| !memories.is_empty());
    let lines = memories.map(|memories| memories.iter().map(json_line).collect::<String>());
    Ok(lines.map(Bytes::from))
}
