//! Requests that the proxy sends on its own behalf.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use lro_http::header::{SESSION, mirrored};
use lro_wire::{Message, Object};
use serde_json::{Value, json};

use super::HttpSession;
use crate::upstream::http::client::Ask;
use crate::upstream::http::error::UpstreamError;
use crate::upstream::http::inbound::InboundMessage;
use crate::upstream::http::request::OutboundRequest;
use crate::upstream::http::response_reader::Form;

/// How many pages of tools are read to learn a schema.
const PAGES: usize = 50;

impl HttpSession {
    /// Learns the schemas of the server's tools, as the client of `outgoing` would.
    pub(super) async fn learn(&self, outgoing: &OutboundRequest) {
        let Some(meta) = std::str::from_utf8(&outgoing.body).ok().and_then(|text| {
            let params = Message::read(text)?.params?;
            Object::read(params.get())?.get("_meta")?.get().parse::<Value>().ok()
        }) else {
            return;
        };
        let mut cursor = None;
        for page in 0..PAGES {
            let mut params = json!({"_meta": meta});
            if let Some(cursor) = cursor {
                params["cursor"] = Value::String(cursor);
            }
            let request = json!({
                "jsonrpc": "2.0", "id": format!("atlatl-{page}"), "method": "tools/list",
                "params": params,
            })
            .to_string();
            let headers = Message::read(&request).map(|message| mirrored(&message));
            let body = Bytes::from(request);
            let answer = self.answer(&body, headers.unwrap_or_default()).await;
            let Ok(Some((_, line))) = answer else { return };
            let result = Message::read(&line).and_then(|message| message.result);
            cursor = result.and_then(|result| self.relay.learn(result.get()));
            if cursor.is_none() {
                return;
            }
        }
    }

    /// The answer to a request of our own, and the session it came with.
    pub(super) async fn answer(
        &self,
        body: &Bytes,
        headers: HeaderMap,
    ) -> Result<Option<(Option<HeaderValue>, String)>, UpstreamError> {
        let ask = Ask { method: Method::POST, headers, body: body.clone(), patient: false };
        let response = self.remote.ask(&ask).await?;
        let session = response.headers().get(SESSION).cloned();
        let Some(form) = Form::from_response(&response).filter(|_| response.status().is_success())
        else {
            return Ok(None);
        };
        let mut reading = self.reading(response, form, self.remote.silence());
        while let Some(item) = reading.next().await? {
            let Some(InboundMessage::Whole(line)) = item.message else { continue };
            let Ok(line) = String::from_utf8(line) else { continue };
            if Message::read(&line).is_some_and(|message| message.result.is_some()) {
                return Ok(Some((session, line)));
            }
        }
        Ok(None)
    }
}
