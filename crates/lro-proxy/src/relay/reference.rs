//! Reference passing: stored results as arguments of other calls.
//!
//! A result of one tool can be passed to another without going through the client (f01). An argument
//! that consists of `lro:ULID` is replaced by the payload as its server sent it, and `lro:ULID|FILTER` by
//! the output of a jq filter (companion specification §12).

use std::io::{self, Write};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro::mcp::ToolOutput;
use lro::{Event, EventKind, EventSink, ExtractError, Extractor, Query, QueryKind, Spools};
use lro_core::Reference;
use lro_core::config::References;
use lro_query::Cancel;
use lro_spool::{Address, RestoreError, SpoolError, restore_payload};
use lro_wire::edit::Edits;
use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{Id, Message, Object};
use serde_json::Value;
use serde_json::value::RawValue;

/// The total size, in bytes, of the values that replace the references of one call.
const MAX_PASSED_LEN: u64 = 16 << 20;
/// How deep references are searched for in arguments.
const MAX_DEPTH: usize = 64;

/// Replaces references in tool arguments with stored results.
pub struct ReferencePassing {
    policy: References,
    spools: Spools,
    extractor: Arc<Extractor>,
    events: Arc<dyn EventSink>,
}

/// Errors of resolving a reference. The call does not reach the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassingError {
    #[error(transparent)]
    Stored(#[from] ExtractError),
    #[error("the reference belongs to another server and cannot be used here")]
    OtherServer,
    #[error("the references in this call add up to more than {} MiB", MAX_PASSED_LEN >> 20)]
    TooLarge,
    #[error("cannot read the stored result")]
    Unreadable(#[from] RestoreError),
    #[error("the result is not text")]
    Binary,
    #[error("the parameter takes JSON, and the result is not JSON")]
    NotJson,
}

impl ReferencePassing {
    /// Resolves references to results in `spools` under `policy`, which must not be
    /// [`References::Off`]. `extractor` runs the filters; its replies must not be truncated for a model.
    pub fn new(
        policy: References,
        spools: Spools,
        extractor: Arc<Extractor>,
        events: Arc<dyn EventSink>,
    ) -> Self {
        Self { policy, spools, extractor, events }
    }

    /// Replaces the references in the arguments of a call.
    pub(crate) fn resolve(
        &self,
        message: &Message<'_>,
        edits: &mut Edits<'_>,
        tool: &str,
        schema: Option<&RawValue>,
        server: &str,
        now: DateTime<Utc>,
    ) -> Result<(), PassingError> {
        let Some(arguments) = message.params().and_then(|params| params.get("arguments")) else {
            return Ok(());
        };
        let mut bytes = 0;
        for ReferenceArgument { json, reference, filter, accepts } in
            find_references(arguments.get(), schema)
        {
            let value = self.value(reference, filter.as_deref(), accepts, server, now);
            if let Err(PassingError::OtherServer) = &value {
                // The event reaches the person who may change the policy; the model may not.
                let (tool, server) = (tool.to_owned(), server.to_owned());
                let kind = EventKind::ReferenceRefused { tool, server };
                self.events.publish(Event::new(now, reference.0, kind));
            }
            let value = value?;
            bytes += value.len() as u64;
            if bytes > MAX_PASSED_LEN {
                return Err(PassingError::TooLarge);
            }
            let kind = EventKind::ResultPassed {
                tool: tool.to_owned(),
                server: server.to_owned(),
                bytes: value.len() as u64,
            };
            self.events.publish(Event::new(now, reference.0, kind));
            edits.replace(json, value);
        }
        Ok(())
    }

    /// The value of a reference, as JSON.
    fn value(
        &self,
        reference: Reference,
        filter: Option<&str>,
        accepts: Accepts,
        server: &str,
        now: DateTime<Utc>,
    ) -> Result<String, PassingError> {
        let address: Address = reference
            .to_string()
            .parse()
            .map_err(|_| SpoolError::NotFound { asked: reference.to_string() })
            .map_err(ExtractError::from)?;
        let stored = self.spools.open(&address, now).map_err(ExtractError::from)?;
        let sidecar = &stored.listed().sidecar;
        if self.policy == References::SameServer && sidecar.server.as_deref() != Some(server) {
            return Err(PassingError::OtherServer);
        }
        if let Some(filter) = filter {
            let wanted = QueryKind::Jq {
                filter: filter.to_owned(),
                whole: true,
                params: std::collections::BTreeMap::new(),
            };
            let question = Query::new(address, wanted);
            let reply = self.extractor.extract(&question, now, &Cancel::default())?;
            if reply.next.is_some() {
                return Err(PassingError::TooLarge);
            }
            let outputs: Vec<&str> = reply.body.lines().collect();
            return Ok(match (accepts, outputs.as_slice()) {
                (Accepts::Text, outputs) => {
                    let plain = |output: &&str| {
                        serde_json::from_str(output).unwrap_or_else(|_| (*output).to_owned())
                    };
                    let texts: Vec<String> = outputs.iter().map(plain).collect();
                    Value::from(texts.join("\n")).to_string()
                }
                (Accepts::Json, [one]) => (*one).to_owned(),
                (Accepts::Json, several) => format!("[{}]", several.join(",")),
            });
        }
        let mut payload = LimitedBuffer(Vec::new());
        match restore_payload(&*stored, &mut payload) {
            Ok(()) => {}
            Err(_) if payload.0.len() as u64 > MAX_PASSED_LEN => {
                return Err(PassingError::TooLarge);
            }
            Err(error) => return Err(error.into()),
        }
        let text = String::from_utf8(payload.0).map_err(|_| PassingError::Binary)?;
        match accepts {
            Accepts::Text => Ok(Value::from(text).to_string()),
            Accepts::Json if serde_json::from_str::<&RawValue>(&text).is_ok() => {
                // A line break would end the message.
                Ok(text.replace(['\n', '\r'], " "))
            }
            Accepts::Json => Err(PassingError::NotJson),
        }
    }
}

/// A buffer that fails when it exceeds the limit.
struct LimitedBuffer(Vec<u8>);

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() as u64 > MAX_PASSED_LEN {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PassingError {
    /// The error as the result of the call, for the model.
    pub(crate) fn response(&self, id: &Id, protocol: ProtocolGeneration) -> String {
        let (class, hint) = match self {
            Self::Stored(error) => (error.class(), error.hint()),
            Self::OtherServer => {
                ("refused", "Use a reference to a result of this server.".to_owned())
            }
            Self::TooLarge => ("size", "Pass a part: lro:…|<jq filter>.".to_owned()),
            Self::Unreadable(_) => {
                ("unavailable", "Retry once, then repeat the call that returned it.".to_owned())
            }
            Self::Binary | Self::NotJson => {
                ("arguments", "Pass it to a parameter that takes text.".to_owned())
            }
        };
        let mut result = ToolOutput::error(class, &self.to_string(), &hint).result();
        if protocol == ProtocolGeneration::Stateless {
            result["resultType"] = "complete".into();
        }
        id.response(&result)
    }
}

impl std::fmt::Debug for ReferencePassing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReferencePassing").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// A reference in the arguments of a call.
#[derive(Debug)]
struct ReferenceArgument<'a> {
    /// The JSON string in its original spelling.
    json: &'a str,
    reference: Reference,
    filter: Option<String>,
    accepts: Accepts,
}

/// What a tool accepts for an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    /// A string, or a schema that does not say.
    Text,
    /// Only other JSON values.
    Json,
}

/// Finds all references in `arguments`, whose schema is `schema`.
fn find_references<'a>(
    arguments: &'a str,
    schema: Option<&RawValue>,
) -> Vec<ReferenceArgument<'a>> {
    let mut references = Vec::new();
    // Only the colon may be escaped; references are copied, so their letters practically never are.
    if arguments.contains("lro:") {
        collect(arguments, schema.map(RawValue::get), MAX_DEPTH, &mut references);
    }
    references
}

fn collect<'a>(
    json: &'a str,
    schema: Option<&str>,
    depth: usize,
    references: &mut Vec<ReferenceArgument<'a>>,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match json.as_bytes().first() {
        Some(b'"') => references.extend(parse_reference(json, schema)),
        Some(b'{') => {
            let members = Object::read(json).unwrap_or_default().members;
            for (name, value) in members {
                let schema = schema.and_then(|schema| {
                    let object = Object::read(schema)?;
                    let named = object.clone().at(&["properties"]).and_then(|all| all.get(&name));
                    named.or_else(|| object.get("additionalProperties")).map(RawValue::get)
                });
                collect(value.get(), schema, depth, references);
            }
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            let schema = schema.and_then(|schema| Object::read(schema)?.get("items"));
            for element in elements {
                collect(element.get(), schema.map(RawValue::get), depth, references);
            }
        }
        _ => {}
    }
}

fn parse_reference<'a>(json: &'a str, schema: Option<&str>) -> Option<ReferenceArgument<'a>> {
    let text: String = serde_json::from_str(json).ok()?;
    let (reference, filter) = match text.split_once('|') {
        Some((reference, filter)) => (reference.trim(), Some(filter.trim().to_owned())),
        None => (text.as_str(), None),
    };
    // A bare ULID may be something else.
    let reference = reference.starts_with("lro:").then(|| reference.parse().ok()).flatten()?;
    Some(ReferenceArgument { json, reference, filter, accepts: accepts(schema) })
}

fn accepts(schema: Option<&str>) -> Accepts {
    if schema.is_none_or(|schema| may_be_text(schema, MAX_DEPTH)) {
        Accepts::Text
    } else {
        Accepts::Json
    }
}

/// Whether a schema allows a string or does not say.
fn may_be_text(schema: &str, depth: usize) -> bool {
    let (Some(depth), Some(object)) = (depth.checked_sub(1), Object::read(schema)) else {
        return true;
    };
    if let Some(types) = object.get("type") {
        // One type, or a list of them.
        return types.get().contains("\"string\"");
    }
    for name in ["anyOf", "oneOf"] {
        let branches =
            object.get(name).and_then(|all| serde_json::from_str::<Vec<&RawValue>>(all.get()).ok());
        if let Some(branches) = branches {
            return branches.iter().any(|branch| may_be_text(branch.get(), depth));
        }
    }
    true
}
