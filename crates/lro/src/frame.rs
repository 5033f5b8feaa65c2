//! The object around a set of memories, written again with fewer of them.

use std::fmt::Write as _;

use lro_core::records::Envelope;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A member with longer JSON is left out where there is no room for it.
const SHORT_MEMBER_LEN: usize = 64;

/// The members of a set of memories beside the records.
#[derive(Debug)]
pub(crate) struct Frame {
    members: Vec<(String, Member)>,
    /// Names of members that were left out.
    left_out: Vec<String>,
    /// A warning that stood there before.
    warning: Option<String>,
}

/// Whether records are given as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    Whole,
    /// Long strings, arrays and objects are cut and marked.
    Abridged,
}

#[derive(Debug)]
enum Member {
    /// Holds the records, which belong between these two.
    Records(String, String),
    /// One element per record, such as `scores`.
    PerRecord(Vec<String>),
    Other(String),
}

impl Frame {
    /// Reads what stands around `count` records; `None` where that is no object.
    pub(crate) fn read(envelope: &Envelope, count: u64) -> Option<Self> {
        let json = &envelope.json;
        let Members(read) = serde_json::from_str(json).ok()?;
        let (mut members, mut warning) = (Vec::new(), None);
        for (name, raw) in read {
            let text = raw.get();
            // A borrowed piece of `json`.
            let start = text.as_ptr() as usize - json.as_ptr() as usize;
            let member = if (start..start + text.len()).contains(&envelope.at) {
                let (before, behind) = text.split_at(envelope.at - start);
                Member::Records(before.to_owned(), behind.to_owned())
            } else if matches!(&*name, "truncated" | "returned") {
                // Ours, of a set that was cut before.
                continue;
            } else if name == "warning"
                && let Ok(said) = serde_json::from_str(text)
            {
                warning = Some(said);
                continue;
            } else {
                per_record(text, count)
                    .map_or_else(|| Member::Other(text.to_owned()), Member::PerRecord)
            };
            members.push((name, member));
        }
        Some(Self { members, left_out: Vec::new(), warning })
    }

    /// Leaves out what takes the room of the records.
    pub(crate) fn drop_long_members(&mut self) {
        let mut left_out = Vec::new();
        self.members.retain(|(name, member)| {
            let short = !matches!(member, Member::Other(json) if json.len() > SHORT_MEMBER_LEN);
            if !short {
                left_out.push(lro_core::excerpt(name, SHORT_MEMBER_LEN));
            }
            short
        });
        left_out.truncate(8);
        self.left_out = left_out;
        self.warning = self.warning.take().map(|said| lro_core::excerpt(&said, SHORT_MEMBER_LEN));
    }

    /// The object with the records `kept`, of `count`; the marks come first.
    pub(crate) fn with_records(&self, kept: &[&str], records: Records, count: u64) -> String {
        let returned = kept.len();
        let mut json = format!(r#"{{"truncated":true,"returned":{returned}"#);
        if !self.members.iter().any(|(name, _)| name == "count") {
            let _ = write!(json, r#","count":{count}"#);
        }
        let mut warning = format!("not stored: only {returned} of {count} are in this response");
        if records == Records::Abridged {
            warning.push_str(", with long values shortened");
        }
        if let Some(said) = &self.warning {
            let _ = write!(warning, "; {said}");
        }
        let _ = write!(json, r#","warning":{}"#, Value::from(warning));
        if !self.left_out.is_empty() {
            let _ = write!(json, r#","left_out":{}"#, Value::from(self.left_out.clone()));
        }
        for (name, member) in &self.members {
            let _ = write!(json, ",{}:", Value::from(name.as_str()));
            match member {
                Member::Records(before, behind) => {
                    let _ = write!(json, "{before}{}{behind}", kept.join(","));
                }
                Member::PerRecord(elements) => {
                    let shown = &elements[..returned.min(elements.len())];
                    let _ = write!(json, "[{}]", shown.join(","));
                }
                Member::Other(text) => json.push_str(text),
            }
        }
        json.push('}');
        json
    }
}

/// The elements of an array that has one for each of `count` records.
fn per_record(json: &str, count: u64) -> Option<Vec<String>> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    (count > 0 && elements.len() as u64 == count)
        .then(|| elements.into_iter().map(|element| element.get().to_owned()).collect())
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
