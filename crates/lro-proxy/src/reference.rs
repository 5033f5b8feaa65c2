//! Reference: a stored result as an argument of another call.
//!
//! f01: what a tool returned can go into another tool without passing the client. An argument that
//! is `lro:ULID`, and nothing else, stands for the payload as its server sent it;
//! `lro:ULID|FILTER` for what a jq filter makes of it (companion specification §12).

mod position;

use std::io::{self, Write};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro::mcp::Called;
use lro::{Event, EventKind, EventSink, ExtractError, Extractor, Question, Spools, Wanted};
use lro_core::Reference;
use lro_core::config::References;
use lro_query::{Cancel, Page};
use lro_spool::{Address, OriginalError, SpoolError, original};
use lro_wire::edit::Edits;
use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{Id, Message};
use serde_json::Value;
use serde_json::value::RawValue;

use self::position::{Place, Takes, places};

/// What all references of one call may come to.
const BYTES_AT_MOST: u64 = 16 << 20;

/// Puts stored results in the place of references.
pub struct Passing {
    policy: References,
    spools: Spools,
    extractor: Arc<Extractor>,
    events: Arc<dyn EventSink>,
}

/// Why a reference is not passed on. The call does not reach the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Stored(#[from] ExtractError),
    #[error("the reference belongs to another server and cannot be used here")]
    OtherServer,
    #[error("the references of this call come to more than {} MiB", BYTES_AT_MOST >> 20)]
    TooLarge,
    #[error("the result cannot be read back")]
    Unreadable(#[from] OriginalError),
    #[error("the result is no text")]
    Binary,
    #[error("the parameter takes JSON, and the result is none")]
    NoJson,
}

impl Passing {
    /// References under `policy`, which must not be [`References::Off`], to results in `spools`;
    /// filters are run by `extractor`, whose replies must not be bounded for a model.
    pub fn new(
        policy: References,
        spools: Spools,
        extractor: Arc<Extractor>,
        events: Arc<dyn EventSink>,
    ) -> Self {
        Self { policy, spools, extractor, events }
    }

    /// Replaces the references among the arguments of a call.
    pub(crate) fn put(
        &self,
        message: &Message<'_>,
        edits: &mut Edits<'_>,
        tool: &str,
        schema: Option<&RawValue>,
        server: &str,
        now: DateTime<Utc>,
    ) -> Result<(), Refusal> {
        let Some(arguments) = message.params().and_then(|params| params.get("arguments")) else {
            return Ok(());
        };
        let mut bytes = 0;
        for Place { json, reference, filter, takes } in places(arguments.get(), schema) {
            let put = self.value(reference, filter.as_deref(), takes, server, now);
            if let Err(Refusal::OtherServer) = &put {
                // The person who may change the policy learns of it; the model is not asked to.
                let (tool, server) = (tool.to_owned(), server.to_owned());
                let kind = EventKind::ReferenceRefused { tool, server };
                self.events.publish(Event::new(now, reference.0, kind));
            }
            let put = put?;
            bytes += put.len() as u64;
            if bytes > BYTES_AT_MOST {
                return Err(Refusal::TooLarge);
            }
            let kind = EventKind::ResultPassed {
                tool: tool.to_owned(),
                server: server.to_owned(),
                bytes: put.len() as u64,
            };
            self.events.publish(Event::new(now, reference.0, kind));
            edits.replace(json, put);
        }
        Ok(())
    }

    /// What stands for a reference, as JSON.
    fn value(
        &self,
        reference: Reference,
        filter: Option<&str>,
        takes: Takes,
        server: &str,
        now: DateTime<Utc>,
    ) -> Result<String, Refusal> {
        let address: Address = reference
            .to_string()
            .parse()
            .map_err(|_| SpoolError::NotFound { asked: reference.to_string() })
            .map_err(ExtractError::from)?;
        let stored = self.spools.open(&address, now).map_err(ExtractError::from)?;
        let sidecar = &stored.listed().sidecar;
        if self.policy == References::SameServer && sidecar.server.as_deref() != Some(server) {
            return Err(Refusal::OtherServer);
        }
        if let Some(filter) = filter {
            let wanted = Wanted::Jq {
                filter: filter.to_owned(),
                whole: true,
                params: std::collections::BTreeMap::new(),
            };
            let question = Question { address, wanted, page: Page::ALL };
            let reply = self.extractor.extract(&question, now, &Cancel::default())?;
            if reply.next.is_some() {
                return Err(Refusal::TooLarge);
            }
            let answers: Vec<&str> = reply.body.lines().collect();
            return Ok(match (takes, answers.as_slice()) {
                (Takes::Text, answers) => {
                    let plain = |answer: &&str| {
                        serde_json::from_str(answer).unwrap_or_else(|_| (*answer).to_owned())
                    };
                    let texts: Vec<String> = answers.iter().map(plain).collect();
                    Value::from(texts.join("\n")).to_string()
                }
                (Takes::Json, [one]) => (*one).to_owned(),
                (Takes::Json, several) => format!("[{}]", several.join(",")),
            });
        }
        let mut payload = Bounded(Vec::new());
        match original(&*stored, &mut payload) {
            Ok(()) => {}
            Err(_) if payload.0.len() as u64 > BYTES_AT_MOST => return Err(Refusal::TooLarge),
            Err(error) => return Err(error.into()),
        }
        let text = String::from_utf8(payload.0).map_err(|_| Refusal::Binary)?;
        match takes {
            Takes::Text => Ok(Value::from(text).to_string()),
            Takes::Json if serde_json::from_str::<&RawValue>(&text).is_ok() => {
                // A line break would end the message.
                Ok(text.replace(['\n', '\r'], " "))
            }
            Takes::Json => Err(Refusal::NoJson),
        }
    }
}

/// Takes a little more than may be passed, and then nothing.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() as u64 > BYTES_AT_MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Refusal {
    /// As the result of the call: an error that the model reads.
    pub(crate) fn response(&self, id: &Id, era: ProtocolGeneration) -> String {
        let (class, hint) = match self {
            Self::Stored(error) => (error.class(), error.hint()),
            Self::OtherServer => {
                ("refused", "Use a reference to a result of this server.".to_owned())
            }
            Self::TooLarge => ("size", "Pass a part: lro:…|<jq filter>.".to_owned()),
            Self::Unreadable(_) => {
                ("unavailable", "Try once more, then make the call again.".to_owned())
            }
            Self::Binary | Self::NoJson => {
                ("arguments", "Pass it where the tool takes text.".to_owned())
            }
        };
        let mut result = Called::error(class, &self.to_string(), &hint).result();
        if era == ProtocolGeneration::Stateless {
            result["resultType"] = "complete".into();
        }
        id.response(&result)
    }
}

impl std::fmt::Debug for Passing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passing").field("policy", &self.policy).finish_non_exhaustive()
    }
}
