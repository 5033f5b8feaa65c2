//! Local: what is answered here, without the server.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lro_query::Cancel;
use lro_wire::sse::SseEvent;

use super::body_writer::{Feed, Outbound, events};
use super::id_map::{Called, named};
use super::json;
use crate::local_tools::LocalToolCall;
use crate::relay::Relay;

/// Cancels calls when whoever waits goes away: over HTTP that is how a request is cancelled.
struct WhileWanted(Vec<Cancel>);

impl Drop for WhileWanted {
    fn drop(&mut self) {
        self.0.iter().for_each(Cancel::cancel);
    }
}

/// Answers calls of our own tools, and says what was refused, under the names that the client has
/// for them where those on the way are others. A client that wants to hear of progress
/// gets a stream.
pub(super) async fn answered(
    relay: Arc<Relay>,
    calls: Vec<LocalToolCall>,
    replies: Vec<String>,
    called: Option<Called>,
) -> Response {
    let wanted = WhileWanted(calls.iter().map(|call| call.cancel.clone()).collect());
    let streams = calls.iter().any(LocalToolCall::wants_progress);
    let named = move |message: &str| {
        let named = called.as_ref().and_then(|called| named(message, called));
        named.unwrap_or_else(|| message.to_owned())
    };
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel::<String>();
    tokio::task::spawn_blocking(move || {
        for reply in replies {
            let _ = said.send(named(&reply));
        }
        for call in calls {
            relay.answer(&call, &|message| drop(said.send(named(message))));
        }
    });
    if !streams {
        // What was cancelled has no answer.
        let Some(message) = heard.recv().await else { return StatusCode::ACCEPTED.into_response() };
        return json(StatusCode::OK, message);
    }
    let (feed, body) = Feed::new();
    tokio::spawn(async move {
        let _wanted = wanted;
        let mut event = SseEvent::default();
        event.has_data = true;
        loop {
            let message = tokio::select! {
                message = heard.recv() => message,
                () = feed.unread() => return,
            };
            let Some(message) = message else { return };
            if feed.event(&event, Some(Outbound::Text(message.into()))).await.is_err() {
                return;
            }
        }
    });
    events(body)
}
