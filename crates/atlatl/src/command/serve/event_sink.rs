//! Sends server events to the ledger and to standard error.

use std::sync::Arc;

use atlatl_server::event::{Event, EventKind, EventSink};

use crate::output::Output;

/// Hands on what is about stored results, and says what went wrong.
pub(super) struct ServerEventSink(Arc<dyn lro::EventSink>);

impl ServerEventSink {
    pub(super) fn new(keep: Arc<dyn lro::EventSink>) -> Self {
        Self(keep)
    }
}

impl EventSink for ServerEventSink {
    fn publish(&self, event: &Event) {
        match &event.kind {
            EventKind::Offload(event) => self.0.publish(event.clone()),
            EventKind::CustodialTaskFinished { task, acted_on: None } => {
                Output::remark(format_args!("{task} failed; it is tried again"));
            }
            _ => {}
        }
    }
}
