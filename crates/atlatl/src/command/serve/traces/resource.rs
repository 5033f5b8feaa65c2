//! Resource: what a collector is told of this server.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

/// Our version, what the environment says, and a name where that has none.
pub(super) fn resource(named: bool) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if named { resource.build() } else { resource.with_service_name("atlatl").build() }
}
