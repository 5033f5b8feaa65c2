//! Parts: what a memory server is made of, by the settings.

use std::sync::Arc;

use atlatl_memory::MemoryStore;
use atlatl_server::{ServerConfig, event::EventBus};
use lro::Moment;
use lro_core::{O200k, config::ProxyTools, tokens};

use crate::{command::proxy::OffloadStack, settings::Settings};

/// A server of memories alone.
pub(super) fn of(
    settings: &Settings,
    store: Arc<dyn MemoryStore>,
    events: EventBus,
) -> ServerConfig {
    let estimate = |text: &str| {
        let measure = tokens::Measure::from_bytes(text.as_bytes());
        tokens::estimate(measure, &tokens::sample(text), &O200k).tokens.0
    };
    let mut parts = ServerConfig::new(store, Arc::new(estimate), Moment::of_system);
    parts.shared_filesystem = settings.config.prompt.offload.shared_filesystem;
    parts.events = events;
    env!("CARGO_PKG_VERSION").clone_into(&mut parts.version);
    parts
}

/// The same, which keeps large results in `keep`.
pub(super) fn offload(parts: &mut ServerConfig, settings: &Settings, keep: &OffloadStack) {
    let config = &settings.config;
    if config.prompt.offload.enabled {
        parts.interceptor = Some(keep.interceptor(settings));
        if config.proxy.tools == ProxyTools::All {
            parts.extraction = Some(keep.tools(settings));
        }
        parts.threshold_tokens = config.prompt.offload.threshold_tokens;
    }
}
