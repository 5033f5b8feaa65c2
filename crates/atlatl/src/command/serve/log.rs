//! The log of an HTTP server: lines on standard error, as text or JSON.
//!
//! Only Atlatl's own lines are written, whatever the level: libraries may log what they send and receive.

use std::io;

use anstream::{AutoStream, ColorChoice};
use atlatl_server::trace::TARGET;
use lro_core::config::{Config, LogFormat};
#[cfg(feature = "otel")]
use opentelemetry_sdk::trace::SdkTracer;
use tracing::Metadata;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::error::Error;
use crate::output::Output;

/// The targets of all lines of this program begin with it.
const OWN_TARGETS: &str = "atlatl";

/// Spans that are exported to a collector.
#[cfg(feature = "otel")]
pub(super) type Exported<'a> = Option<&'a SdkTracer>;
#[cfg(not(feature = "otel"))]
pub(super) type Exported<'a> = std::marker::PhantomData<&'a ()>;

/// The log, whose level can be changed.
pub(super) struct Log(reload::Handle<EnvFilter, Registry>);

impl Log {
    /// Starts the log of this process, and the export of spans.
    #[cfg_attr(not(feature = "otel"), expect(unused_variables, reason = "no spans are exported"))]
    pub(super) fn start(config: &Config, exported: Exported<'_>) -> Result<Self, Error> {
        let (level, handle) = reload::Layer::new(level(config)?);
        let own = filter_fn(|metadata: &Metadata<'_>| metadata.target().starts_with(OWN_TARGETS));
        let is_json = config.server.log.format == LogFormat::Json;
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = if is_json {
            let lines = lines.json().flatten_event(true);
            lines.with_current_span(false).with_span_list(false).boxed()
        } else {
            let has_colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
            lines.with_target(false).with_ansi(has_colours).compact().boxed()
        };
        let registry = tracing_subscriber::registry().with(lines.with_filter(level.and(own)));
        #[cfg(feature = "otel")]
        let registry = registry.with(exported.map(|tracer| {
            let spans = tracing_opentelemetry::layer().with_tracer(tracer.clone());
            let spans = spans.with_location(false).with_threads(false).with_target(false);
            let is_request =
                |metadata: &Metadata<'_>| metadata.is_span() && metadata.target() == TARGET;
            spans.with_tracked_inactivity(false).with_filter(filter_fn(is_request))
        }));
        registry.try_init().map_err(|error| Error::failure(format!("log: {error}")))?;
        if is_json {
            Output::log_remarks();
        }
        Ok(Self(handle))
    }

    /// Changes the level to that of `config`.
    pub(super) fn reload(&self, config: &Config) -> Result<(), Error> {
        let level = level(config)?;
        self.0.reload(level).map_err(|error| Error::failure(format!("server.log.level: {error}")))
    }
}

/// `RUST_LOG`, or else `server.log.level`.
fn level(config: &Config) -> Result<EnvFilter, Error> {
    let variable = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|level| !level.is_empty());
    let (name, text) = match &variable {
        Some(level) => (EnvFilter::DEFAULT_ENV, level.as_str()),
        None => ("server.log.level", config.server.log.level.as_str()),
    };
    EnvFilter::builder().parse(text).map_err(|error| {
        Error::usage(format!("{name}: {text:?}: {error}"))
            .with_hint("for example info, or info,atlatl::request=debug")
    })
}
