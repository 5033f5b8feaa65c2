//! Whatever a result contains is found by a search, and what a descriptor shows of it and what it only
//! names add up to the whole.
//!
//! The parts of a result, and where the descriptor accounts for each of them:
//!
//! 1. The main part: `summary.bytes` is its size.
//! 2. Its records: `summary.count` is their number.
//! 3. A member of the main part outside the records, which is a member of an object on the way to the
//!    records, or of a document without records. It is exactly one of
//!    - an entry of `lro.around` with its value,
//!    - an entry of `lro.around` with a truncated value, in which the omitted part is counted,
//!    - an entry of `lro.around` `(kind, n bytes)` with the size of its value,
//!    - an entry of `lro.tables`, with the number of its records,
//!    - one of the tables that the last entry of `lro.tables` counts,
//!    - one of the members that the last entry of `lro.around` counts, with their size in bytes.
//! 4. A further text is exactly one of
//!    - an entry of `lro.notes` with the text, without white space at its ends,
//!    - an entry of `lro.notes` with its size,
//!    - one of the texts that the last entry of `lro.notes` counts, with their size in bytes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lro::mcp::Tools;
use lro::{Delivered, Extractor, IdSeed, Offloaded, Offloader, Spools, ToolCall};
use lro_core::config::Config;
use lro_core::{escape_invisible, excerpt};
use lro_query::Cancel;
use lro_spool::MemorySpool;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::any_result::{Alphabet, AnyResult, MainPart, Node, Spelling, any_result, escaped};
use crate::fixture::now;

/// The characters of a path that `lro.around` shows.
const MAX_PATH_CHARS: usize = 80;

/// A sample by default, more in a long run (`cargo xtask soak everything-found` and `sizes-add-up`).
fn cases(sample: u32) -> ProptestConfig {
    let soak = std::env::var("ATLATL_SOAK_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = soak.unwrap_or(sample);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// Stores `result`, whatever its size.
fn store(result: &AnyResult) -> (Offloaded, Tools) {
    let spool = Arc::new(MemorySpool::default());
    let mut config = Config::default();
    config.proxy.threshold_tokens = 1;
    let offloader = Offloader::new(spool.clone(), &config);
    let seed = IdSeed { now: now(), random: 1 };
    let call = ToolCall::new("get_anything");
    let delivered = result.body.with(|body| offloader.deliver_result(call, body, seed));
    let Delivered::Offloaded(offloaded) = delivered else { panic!("{delivered:?}") };
    let extractor = Extractor::new(Spools::new(vec![spool]), &Config::default());
    (*offloaded, Tools::new(Arc::new(extractor)))
}

/// Searches for each needle as a person would type it, punctuation escaped.
fn find_all(result: &AnyResult) -> Result<(), TestCaseError> {
    let (offloaded, tools) = store(result);
    let reference = offloaded.listed.id().reference().to_string();
    for needle in &result.needles {
        let pattern = escaped(needle);
        let arguments = to_raw_value(&json!({"ref": reference, "pattern": pattern})).unwrap();
        let called =
            tools.call("search_large_output", Some(&arguments), now(), &Cancel::default()).unwrap();
        prop_assert!(
            !called.is_error && !called.text.starts_with("0 of "),
            "{needle:?}: {}",
            called.text
        );
    }
    Ok(())
}

/// A descriptor with its lexemes: a number may be beyond the range of a double.
#[derive(Debug, Deserialize)]
struct Descriptor {
    lro: Lro,
    summary: Summary,
}

#[derive(Debug, Deserialize)]
struct Lro {
    parts: Option<usize>,
    #[serde(default)]
    around: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    tables: Vec<Table>,
    #[serde(default)]
    notes: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Table {
    #[serde(rename = "table")]
    name: String,
    from: Option<String>,
    records: usize,
}

#[derive(Debug, Deserialize)]
struct Summary {
    count: Option<usize>,
    kind: String,
    bytes: usize,
}

/// A member outside the records.
struct Member<'a> {
    path: String,
    value: &'a Node,
}

/// Whether each part of `result` has its place in its descriptor.
fn add_up(result: &AnyResult) -> Result<(), TestCaseError> {
    let (offloaded, _) = store(result);
    let text = &offloaded.descriptor;
    let descriptor: Descriptor = serde_json::from_str(text).unwrap();
    let mut further: Vec<&String> = result.texts.iter().collect();
    let mut document = result.document.as_ref();
    match result.main {
        MainPart::Only { bytes } => prop_assert_eq!(descriptor.summary.bytes, bytes),
        MainPart::TextAroundJson { bytes } => {
            prop_assert_eq!(descriptor.summary.bytes, bytes);
            if descriptor.summary.kind == "text" {
                (further, document) = (Vec::new(), None);
            }
        }
        MainPart::OneOfTexts => {}
    }
    // Texts of the same length can be told apart only by what is left.
    let mains: Vec<Vec<&String>> = match result.main {
        MainPart::OneOfTexts => (0..further.len())
            .filter(|main| further[*main].len() == descriptor.summary.bytes)
            .map(|main| {
                further.iter().enumerate().filter(|(i, _)| *i != main).map(|(_, t)| *t).collect()
            })
            .collect(),
        _ => vec![further],
    };
    let reasons: Vec<String> =
        mains.iter().filter_map(|further| texts_add_up(&descriptor.lro, further).err()).collect();
    prop_assert!(reasons.len() < mains.len(), "{reasons:?}: {text}");
    if let Some(document) = document {
        let mut main_tables = Vec::new();
        match descriptor.summary.count {
            Some(count) => collect_tables(document, count, &mut Vec::new(), &mut main_tables),
            None => main_tables.push(Vec::new()),
        }
        // Which table is the main one is not asked here: one of those with that number of records.
        let reasons: Vec<String> = main_tables
            .iter()
            .filter_map(|path| members_add_up(&descriptor, document, path).err())
            .collect();
        prop_assert!(reasons.len() < main_tables.len(), "{reasons:?}: {text}");
    }
    Ok(())
}

fn texts_add_up(lro: &Lro, further: &[&String]) -> Result<(), String> {
    if lro.parts.unwrap_or(1) != further.len() + 1 {
        return Err(format!("{:?} parts", lro.parts));
    }
    let mut accounted = 0;
    let mut left: BTreeMap<usize, &&String> = (1..).zip(further).collect();
    for note in &lro.notes {
        let number = note["part"].as_u64().map(|part| usize::try_from(part).unwrap());
        if let Some(number) = number {
            let text = left.remove(&number).ok_or("a part that is not there")?;
            let shown = note["text"].as_str().map(str::to_owned);
            match shown {
                Some(shown) if shown == escape_invisible(text.trim()) => {}
                None if note["bytes"] == text.len() && note["kind"].is_string() => {}
                _ => return Err(format!("{note} for {text:?}")),
            }
        } else {
            accounted += note["more_parts"].as_u64().unwrap_or_default();
            let bytes: usize = left.values().map(|text| text.len()).sum();
            if note["bytes"] != bytes {
                return Err(format!("{note} for {bytes} bytes"));
            }
        }
    }
    if accounted != left.len() as u64 {
        return Err(format!("{accounted} of {} other texts are counted", left.len()));
    }
    Ok(())
}

/// The paths of the tables with `count` records.
fn collect_tables<'a>(
    node: &'a Node,
    count: usize,
    path: &mut Vec<&'a str>,
    found: &mut Vec<Vec<&'a str>>,
) {
    match node {
        Node::Array(elements) if elements.len() == count => found.push(path.clone()),
        Node::Object(members) => {
            if members.len() == count && members.iter().all(|(_, value)| is_object(value)) {
                found.push(path.clone());
            }
            for (name, value) in members {
                path.push(name);
                collect_tables(value, count, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn is_object(node: &Node) -> bool {
    matches!(node, Node::Object(_))
}

fn record_count(table: &Node) -> usize {
    match table {
        Node::Array(records) => records.len(),
        Node::Object(records) => records.len(),
        _ => 0,
    }
}

/// The members outside the table at `path`, or all members of a document.
fn outer_members<'a>(document: &'a Node, path: &[&str], records: bool) -> Vec<Member<'a>> {
    let mut members = Vec::new();
    let (mut level, mut prefix) = (document, String::new());
    let join = |prefix: &str, name: &str| {
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
    };
    let steps = path.iter().copied().map(Some).chain((!records).then_some(None));
    for step in steps {
        let Node::Object(inner) = level else { break };
        for (name, value) in inner.iter().filter(|(name, _)| Some(name.as_str()) != step) {
            members.push(Member { path: join(&prefix, name), value });
        }
        let Some(step) = step else { break };
        level = &inner.iter().find(|(name, _)| name == step).unwrap().1;
        prefix = join(&prefix, step);
    }
    members
}

fn members_add_up(descriptor: &Descriptor, document: &Node, path: &[&str]) -> Result<(), String> {
    let records = descriptor.summary.kind == "records";
    let mut left: HashMap<String, Member<'_>> = outer_members(document, path, records)
        .into_iter()
        .map(|member| (excerpt(&member.path, MAX_PATH_CHARS), member))
        .collect();
    let mut rest = None;
    for (name, shown) in &descriptor.lro.around {
        if name == "\u{2026}" {
            rest = Some(serde_json::from_str::<String>(shown.get()).unwrap());
            continue;
        }
        let Some(member) = left.remove(name) else {
            return Err(format!("{name:?} is not outside the records"));
        };
        let json = member.value.json(Spelling::Short);
        let size = format!(", {} bytes)\"", json.len());
        let abridged = ["characters)", "more)", " more\""];
        if !(is_shown(member.value, shown)
            || shown.get().starts_with("\"(") && shown.get().ends_with(&size)
            || abridged.iter().any(|mark| shown.get().contains(mark)))
        {
            return Err(format!("{name:?} is shown as {shown} instead of {json}"));
        }
    }
    // The largest are tables. A table that is not found is in a member that is shown or named.
    let mut counted = 0;
    for table in descriptor.lro.tables.iter().filter(|table| table.name != "results") {
        if let Some(more) = table.name.strip_prefix("\u{2026} ") {
            counted = more.trim_end_matches(" more").parse().unwrap();
            continue;
        }
        let path = table.from.as_ref().unwrap_or(&table.name);
        // An abridged path may be that of a member that contains the table.
        let is_table = |member: &Member<'_>| {
            has_objects(member) && record_count(member.value) == table.records
        };
        if !path.contains('\u{2026}') || left.get(path).is_some_and(is_table) {
            left.remove(path);
        }
    }
    rest_adds_up(rest.as_deref(), &left, counted)
}

fn has_objects(member: &Member<'_>) -> bool {
    match member.value {
        Node::Array(records) => records.iter().all(is_object) && !records.is_empty(),
        Node::Object(records) => records.iter().all(|(_, record)| is_object(record)),
        _ => false,
    }
}

/// Whether `rest` counts the members that are left without up to `counted` tables. Which tables these
/// are is not said: some of the members with objects.
fn rest_adds_up(
    rest: Option<&str>,
    left: &HashMap<String, Member<'_>>,
    counted: usize,
) -> Result<(), String> {
    let size = |member: &Member<'_>| member.value.json(Spelling::Short).len();
    // The number and the size of every choice of tables.
    let mut choices = HashSet::from([(0, 0)]);
    for member in left.values().filter(|member| has_objects(member)) {
        let with = choices.iter().map(|(tables, bytes)| (tables + 1, bytes + size(member)));
        let with: Vec<_> = with.filter(|(tables, _)| *tables <= counted).collect();
        choices.extend(with);
    }
    let (members, bytes) = (left.len(), left.values().map(size).sum::<usize>());
    let adds_up = choices.iter().any(|(tables, table_bytes)| {
        let members = members - tables;
        let text = format!("{members} more members, {} bytes", bytes - table_bytes);
        rest == (members > 0).then_some(&*text)
    });
    if adds_up {
        return Ok(());
    }
    let names: Vec<&String> = left.keys().collect();
    Err(format!("{rest:?} instead of {members} members, {bytes} bytes without tables: {names:?}"))
}

/// Whether `shown` is `node`, with invisible characters escaped.
fn is_shown(node: &Node, shown: &RawValue) -> bool {
    match node {
        Node::Text(text) => serde_json::from_str::<String>(shown.get())
            .is_ok_and(|shown| shown == escape_invisible(text)),
        Node::Number(lexeme) => shown.get() == lexeme,
        Node::Literal(literal) => shown.get() == *literal,
        Node::Array(elements) => {
            serde_json::from_str::<Vec<&RawValue>>(shown.get()).is_ok_and(|shown| {
                shown.len() == elements.len()
                    && elements.iter().zip(shown).all(|(node, shown)| is_shown(node, shown))
            })
        }
        Node::Object(members) => serde_json::from_str::<HashMap<String, &RawValue>>(shown.get())
            .is_ok_and(|shown| {
                shown.len() == members.len()
                    && members.iter().all(|(name, node)| {
                        let shown = shown.get(&*escape_invisible(name));
                        shown.is_some_and(|shown| is_shown(node, shown))
                    })
            }),
    }
}

#[test]
fn g10_every_scalar_is_found() {
    proptest!(cases(150), |(result in any_result(Alphabet::Unescaped))| find_all(&result)?);
}

#[test]
fn g10_every_scalar_is_found_however_it_is_escaped() {
    proptest!(cases(150), |(result in any_result(Alphabet::Any))| find_all(&result)?);
}

#[test]
fn g10_what_is_shown_and_what_is_named_add_up_to_the_whole() {
    proptest!(cases(300), |(result in any_result(Alphabet::Any))| add_up(&result)?);
}
