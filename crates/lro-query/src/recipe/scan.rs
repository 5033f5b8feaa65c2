//! Recipes that select or format each record by itself (1 to 5, 7, and 10 above the light level).

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{Flaw, RecipeError};
use super::json_cursor::inside;
use super::record::{any_element, fields};
use super::{PageWriter, RecordScan, json_string};
use crate::pattern;
use crate::pattern::{Case, Engine, PatternError, Scratch};

/// A recipe that selects or formats each record.
pub(super) enum ScanRecipe {
    /// Recipe 1: title and namespace, tab-separated.
    Titles,
    /// Recipe 2: records whose namespace has this prefix.
    Namespace(String),
    /// Recipe 3: records with a match in the title.
    Title(Box<Keyword>),
    /// Recipe 4: id, title and namespace only.
    Brief,
    /// Recipe 5: records of this type.
    MemoryType(String),
    /// Recipe 7: records with this tag.
    Tag(String),
    /// Recipe 10: records with a match in the content.
    Content(Box<Keyword>),
}

/// The buffers of one thread.
struct Workspace {
    decoded: Vec<u8>,
    search: Option<Scratch>,
}

/// The concatenated answers of one chunk.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The number of answers that were only counted.
    counted: u64,
}

impl ScanRecipe {
    /// Writes the answers and returns the number of records.
    pub(super) fn run(
        &self,
        scan: &RecordScan<'_>,
        page_writer: &mut PageWriter<'_, '_>,
    ) -> Result<u64, RecipeError> {
        // Set once the page is full: answers of later chunks are never on it.
        let only_count = AtomicBool::new(page_writer.only_counts());
        scan.map_records(
            || self.workspace(),
            |workspace, batch: &mut Batch, _, record| {
                if only_count.load(Ordering::Relaxed) {
                    batch.counted += u64::from(self.selects(record, workspace)?);
                } else if self.selects(record, workspace)? {
                    self.write(record, workspace, &mut batch.bytes)?;
                    batch.ends.push(batch.bytes.len());
                }
                Ok(())
            },
            |_| {},
            |batch| {
                let mut from = 0;
                for to in batch.ends {
                    if page_writer.write(&batch.bytes[from..to]).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    from = to;
                }
                page_writer.skip(batch.counted);
                if page_writer.only_counts() {
                    only_count.store(true, Ordering::Relaxed);
                }
                Ok(ControlFlow::Continue(()))
            },
        )
    }

    fn workspace(&self) -> Workspace {
        let search = match self {
            Self::Title(keyword) | Self::Content(keyword) => Some(keyword.scratch()),
            _ => None,
        };
        Workspace { decoded: Vec::new(), search }
    }

    fn selects(&self, record: &[u8], workspace: &mut Workspace) -> Result<bool, Flaw> {
        let one = |name| fields(record, [name]).map(|[field]| field);
        match self {
            Self::Titles | Self::Brief => Ok(true),
            Self::Namespace(prefix) => {
                let namespace = string(one("namespace")?, &mut workspace.decoded);
                Ok(namespace.starts_with(prefix.as_bytes()))
            }
            Self::MemoryType(wanted) => {
                let lexeme = one("memory_type")?.and_then(inside);
                Ok(lexeme.is_some_and(|text| json_string::is(text, wanted)))
            }
            Self::Tag(wanted) => match one("tags")? {
                Some(tags) => any_element(tags, |tag| {
                    inside(tag).is_some_and(|text| json_string::is(text, wanted))
                }),
                None => Ok(false),
            },
            Self::Title(keyword) => contains_keyword(keyword, one("title")?, workspace),
            Self::Content(keyword) => contains_keyword(keyword, one("content")?, workspace),
        }
    }

    fn write(
        &self,
        record: &[u8],
        workspace: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Result<(), Flaw> {
        match self {
            Self::Titles => {
                let [title, namespace] = fields(record, ["title", "namespace"])?;
                cell(string(title, &mut workspace.decoded), out);
                out.push(b'\t');
                cell(string(namespace, &mut workspace.decoded), out);
            }
            Self::Brief => {
                let [id, title, namespace] = fields(record, ["id", "title", "namespace"])?;
                for (name, field) in [
                    (&b"{\"id\":"[..], id),
                    (b",\"title\":", title),
                    (b",\"namespace\":", namespace),
                ] {
                    out.extend_from_slice(name);
                    out.extend_from_slice(field.unwrap_or(b"null"));
                }
                out.push(b'}');
            }
            _ => out.extend_from_slice(record.trim_ascii()),
        }
        Ok(())
    }
}

/// The text of a string field; empty for other types.
#[inline]
fn string<'a>(field: Option<&'a [u8]>, decoded: &'a mut Vec<u8>) -> &'a [u8] {
    field.and_then(inside).map_or(b"", |inside| json_string::decode(inside, decoded))
}

fn contains_keyword(
    keyword: &Keyword,
    field: Option<&[u8]>,
    workspace: &mut Workspace,
) -> Result<bool, Flaw> {
    let scratch = workspace.search.get_or_insert_with(|| keyword.scratch());
    Ok(keyword.is_in(string(field, &mut workspace.decoded), scratch)?)
}

/// Writes a cell of tab-separated text as `@tsv` of jq 1.6 does.
fn cell(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(i) = rest.iter().position(|b| matches!(b, b'\t' | b'\n' | b'\r' | b'\\' | 0)) {
        out.extend_from_slice(&rest[..i]);
        out.extend_from_slice(match rest[i] {
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            0 => b"\\0",
            _ => b"\\\\",
        });
        rest = &rest[i + 1..];
    }
    out.extend_from_slice(rest);
}

/// `test(…; "i")`: a case-insensitive regular expression with the semantics of `jq`, for patterns
/// that both engines support.
///
/// Known difference: one character does not match two (in `jq`, `ss` matches `ß`).
pub(super) struct Keyword {
    engine: Engine,
    /// In `jq`, `$` also matches before a line break at the end of the text.
    dollar: bool,
}

impl Keyword {
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        Ok(Self {
            engine: pattern::for_text(pattern, Case::Ignored)?,
            // A second test is harmless if `$` is literal, but wrong for `\z`.
            dollar: pattern.contains('$') && !pattern.contains(r"\z"),
        })
    }

    pub(super) fn scratch(&self) -> Scratch {
        self.engine.scratch()
    }

    pub(super) fn is_in(&self, text: &[u8], scratch: &mut Scratch) -> Result<bool, PatternError> {
        if self.engine.is_match(scratch, text)? {
            return Ok(true);
        }
        match text.strip_suffix(b"\n") {
            Some(shorter) if self.dollar => self.engine.is_match(scratch, shorter),
            _ => Ok(false),
        }
    }
}
