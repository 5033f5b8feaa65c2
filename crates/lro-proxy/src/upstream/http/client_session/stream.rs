//! Event streams: unsolicited messages, and the rest of an interrupted response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderValue, Method};
use lro_http::header::LAST_EVENT;
use reqwest::Response;
use tokio::time::sleep;

use super::{HttpSession, bare};
use crate::upstream::http::backoff::Backoff;
use crate::upstream::http::client::Ask;
use crate::upstream::http::response_reader::{Form, ResponseReader};

/// A stream that lasted so long did not fail.
const LASTING: Duration = Duration::from_secs(10);

impl HttpSession {
    /// Goes on with a stream behind the event called `last`.
    pub(super) async fn resumed(
        &self,
        last: &str,
        waiting: &mut Backoff,
    ) -> Option<ResponseReader> {
        loop {
            let ask = Ask { patient: false, ..self.stream(Some(last)) };
            // Without where it broke off, another stream would come.
            ask.headers.get(LAST_EVENT)?;
            sleep(waiting.next()?).await;
            match self.remote.ask(&ask).await {
                Ok(response) if is_stream(&response) => {
                    return Some(self.reading(response, Form::Events, self.remote.silence()));
                }
                // It does not do that, or does not know us any more.
                Ok(response) if response.status().is_client_error() => return None,
                _ => {}
            }
        }
    }

    /// Reads what the server says unasked, from now on.
    pub(super) fn listen(self: &Arc<Self>) {
        let link = Arc::clone(self);
        let listening = self.runtime.spawn(async move {
            let (mut last, mut waiting) = (None, Backoff::default());
            loop {
                let response = link.remote.ask(&link.stream(last.as_deref())).await;
                let began = Instant::now();
                match response {
                    Ok(response) if is_stream(&response) => {
                        let mut reading = link.reading(response, Form::Events, None);
                        while let Ok(Some(item)) = reading.next().await {
                            if item.message.is_some() {
                                waiting.heard();
                            }
                            waiting.asked(item.event.retry);
                            last = item.event.id.or(last);
                            if let Some(message) = item.message {
                                link.hear(message);
                            }
                        }
                    }
                    // Most servers have nothing to say.
                    Ok(response) if !response.status().is_server_error() => return,
                    _ => {}
                }
                if began.elapsed() > LASTING {
                    waiting.heard();
                }
                let Some(wait) = waiting.next() else { return link.greeted.gave_up() };
                sleep(wait).await;
            }
        });
        self.greeted.listens(listening.abort_handle());
    }

    /// Asks for the stream of what the server says unasked.
    fn stream(&self, last: Option<&str>) -> Ask {
        let mut ask = bare(Method::GET, self.greeted.now().headers());
        let last = last.filter(|last| !last.is_empty());
        if let Some(last) = last.and_then(|last| HeaderValue::from_bytes(last.as_bytes()).ok()) {
            ask.headers.insert(LAST_EVENT, last);
        }
        ask
    }
}

fn is_stream(response: &Response) -> bool {
    response.status().is_success() && Form::from_response(response) == Some(Form::Events)
}
