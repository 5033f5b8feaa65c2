//! Markdown documents: the fenced blocks, table rows, links and headings that checks read, and parts
//! that are generated, between `<!-- generated: NAME -->` and `<!-- end -->`.

use std::fs;

use anyhow::{Result, bail};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::repository::Repository;

/// A fenced code block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The text after the opening fence.
    pub(crate) info: String,
    /// The line number of the opening fence, from 1.
    pub(crate) line: usize,
    /// The lines between the fences, without the fence's indentation.
    pub(crate) body: Vec<String>,
}

/// What a document consists of; every part has its line number, from 1.
#[derive(Debug, Default)]
pub(crate) struct Document<'a> {
    /// The fenced blocks in order.
    pub(crate) blocks: Vec<Block>,
    /// The source of the cells of every table row, header rows included.
    pub(crate) table_rows: Vec<(usize, Vec<&'a str>)>,
    /// The targets of links and images.
    pub(crate) links: Vec<(usize, String)>,
    /// The anchors of the headings, as GitHub spells them.
    pub(crate) anchors: Vec<String>,
}

impl<'a> Document<'a> {
    /// Parses `text` as `CommonMark` with tables.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut document = Self::default();
        let (mut code, mut heading) = (None::<Block>, None::<String>);
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES);
        let defined = parser.reference_definitions().iter();
        let defined = defined.map(|(_, link)| (link.span.start, link.dest.to_string()));
        let mut links: Vec<(usize, String)> = defined.collect();
        for (event, range) in parser.into_offset_iter() {
            let line = || line_of(text, range.start);
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    code = Some(Block { info: info.to_string(), line: line(), body: Vec::new() });
                }
                Event::End(TagEnd::CodeBlock) => document.blocks.extend(code.take()),
                Event::Start(Tag::TableHead | Tag::TableRow) => {
                    document.table_rows.push((line(), Vec::new()));
                }
                Event::Start(Tag::TableCell) => {
                    if let Some((_, cells)) = document.table_rows.last_mut() {
                        cells.push(text[range.clone()].trim());
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push((range.start, dest_url.to_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(part) | Event::Code(part) => {
                    if let Some(block) = &mut code {
                        block.body.extend(part.lines().map(str::to_owned));
                    } else if let Some(title) = &mut heading {
                        title.push_str(&part);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let title = heading.take().unwrap_or_default();
                    document.anchors.extend(anchor(&title, &document.anchors));
                }
                _ => {}
            }
        }
        links.sort();
        document.links =
            links.into_iter().map(|(at, target)| (line_of(text, at), target)).collect();
        document
    }
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The anchor of a heading; a repeated one gets the next free number.
fn anchor(title: &str, earlier: &[String]) -> Option<String> {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let base: String =
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
    let numbered = (1..).map(|n| format!("{base}-{n}"));
    std::iter::once(base.clone()).chain(numbered).find(|anchor| !earlier.contains(anchor))
}

/// The spans between single backticks in `text`.
pub(crate) fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

const END_MARK: &str = "<!-- end -->";

/// Puts `body` into the part called `name` of `document`.
pub fn write_generated(
    repository: &Repository,
    document: &str,
    name: &str,
    body: &str,
) -> Result<()> {
    let Some(text) = replace_generated(&repository.read(document)?, name, body) else {
        bail!("{document} has no part `{}` … `{END_MARK}`", begin_mark(name));
    };
    Ok(fs::write(repository.path(document), text)?)
}

fn begin_mark(name: &str) -> String {
    format!("<!-- generated: {name} -->")
}

/// The document with the part replaced; `None` when it has no such part.
pub(crate) fn replace_generated(document: &str, name: &str, body: &str) -> Option<String> {
    let begin = begin_mark(name);
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(END_MARK)?;
    Some(format!("{before}{begin}\n{}\n{END_MARK}{after}", body.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str, line: usize, body: &[&str]) -> Block {
        let body = body.iter().map(|&line| line.to_owned()).collect();
        Block { info: info.to_owned(), line, body }
    }

    #[test]
    fn blocks_are_read_without_their_indentation() {
        let document = Document::parse("a\n```console\n$ x\n\ny\n```\nb\n\n  ~~~\n  z\n  ~~~\n");
        assert_eq!(document.blocks, [block("console", 2, &["$ x", "", "y"]), block("", 9, &["z"])]);
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        let document = Document::parse("````markdown\n```console\n```\n````\nend");
        assert_eq!(document.blocks, [block("markdown", 1, &["```console", "```"])]);
    }

    #[test]
    fn rows_are_split_outside_code() {
        let document =
            Document::parse("| a | `b` c |\n|---|---|\n| d | e\\|f |\n\ntext | no row\n");
        assert_eq!(document.table_rows, [(1, vec!["a", "`b` c"]), (3, vec!["d", "e\\|f"])]);
    }

    #[test]
    fn links_are_found_outside_code() {
        let document = Document::parse(
            "[a](x.md) and `[b](no.md)` ![c](d.svg)\n[d](y.md#z \"title\")\n\
             ```\n[e](no.md)\n```\n\n[f]: ../w.md\n",
        );
        let expected = [(1, "x.md"), (1, "d.svg"), (2, "y.md#z"), (7, "../w.md")];
        assert_eq!(document.links, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn anchors_follow_the_headings() {
        let document = Document::parse("# A `b` C!\n## Two words\n## Two words\n#no\n");
        assert_eq!(document.anchors, ["a-b-c", "two-words", "two-words-1"]);
    }

    #[test]
    fn spans_are_the_text_between_backticks() {
        assert_eq!(code_spans("see `a::b` and `c`"), ["a::b", "c"]);
    }

    #[test]
    fn only_the_named_part_changes() {
        let document = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n\
                        <!-- generated: y -->\nkept\n<!-- end -->\n";
        let replaced = replace_generated(document, "x", "new\n").unwrap();
        assert_eq!(replaced, document.replace("old", "new"));
        assert_eq!(replace_generated(&replaced, "x", "new").unwrap(), replaced);
    }

    #[test]
    fn a_missing_part_is_not_invented() {
        assert_eq!(replace_generated("a\n", "x", "new"), None);
        assert_eq!(replace_generated("<!-- generated: x -->\nnever closed", "x", "new"), None);
    }
}
