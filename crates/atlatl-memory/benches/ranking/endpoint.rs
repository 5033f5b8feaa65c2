//! An embedding endpoint on the loopback interface that answers with the vectors of a local model.

use std::io;
use std::sync::Arc;

use atlatl_memory::Embedder;
use atlatl_memory::embed::EmbedderChoice;
use serde_json::{Value, json};
use testkit::http::{HttpServer, reply_json};

use crate::ways::Model;

/// The name under which the vectors are stored.
const MODEL: &str = "scripted";

/// Starts an endpoint with the vectors of `table`. It runs until the first value is dropped.
pub(crate) fn start(table: &Model) -> (HttpServer, Model) {
    let embedder = Arc::clone(&table.embedder);
    let server = HttpServer::start(move |request, stream| {
        let body = embeddings(&*embedder, &request.json())?;
        reply_json(stream, "200 OK", &body)
    });
    let choice: EmbedderChoice =
        format!("openai:{}#{MODEL}", server.url("/v1")).parse().expect("an endpoint");
    let model =
        Model::new("endpoint", "a scripted endpoint with the vectors of wordllama", &choice);
    (server, model)
}

fn embeddings(embedder: &dyn Embedder, request: &Value) -> io::Result<Value> {
    let input = request["input"].as_array().ok_or(io::ErrorKind::InvalidData)?;
    let texts: Vec<&str> = input.iter().filter_map(Value::as_str).collect();
    let vectors = embedder.embed(&texts).map_err(io::Error::other)?;
    let data: Vec<Value> = vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
        .collect();
    Ok(json!({"object": "list", "data": data}))
}
