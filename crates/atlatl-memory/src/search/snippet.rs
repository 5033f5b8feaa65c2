//! Snippets: the part of a memory that shows why it matches, with the matching words.

use std::collections::BTreeSet;
use std::ops::Range;

use super::query::{Phrase, Terms, is_unsegmented};
use super::tokenizer::{Token, tokenize, tokens};
use super::{MatchedBy, SearchHit};

/// The maximum width of a snippet, in columns.
const MAX_WIDTH: usize = 120;
/// The number of bytes of a text in which words are looked for.
const MAX_SEARCHED_LEN: usize = 16 * 1024;

/// A part of a memory on one line, with the matching words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snippet {
    /// The text. `…` is where it was cut.
    pub text: String,
    /// The byte ranges of the matching words, in order and not overlapping.
    pub highlights: Vec<Range<usize>>,
}

impl Snippet {
    /// Renders the text: the matching words by one function, the text between them by another.
    pub fn render(
        &self,
        matching: impl Fn(&str) -> String,
        between: impl Fn(&str) -> String,
    ) -> String {
        let mut rendered = String::new();
        let mut end = 0;
        for range in &self.highlights {
            rendered.push_str(&between(&self.text[end..range.start]));
            rendered.push_str(&matching(&self.text[range.clone()]));
            end = range.end;
        }
        rendered.push_str(&between(&self.text[end..]));
        rendered
    }

    /// Returns the text with each matching word as `**word**`. Asterisks and backslashes of the
    /// memory follow a backslash, so that they are not read as marks.
    pub fn to_markdown(&self) -> String {
        let escape = |text: &str| text.replace('\\', r"\\").replace('*', r"\*");
        self.render(|word| format!("**{}**", escape(word)), escape)
    }
}

/// Finds the words of a query in memories.
#[derive(Debug)]
pub struct Highlighter {
    patterns: Vec<Pattern>,
}

/// Consecutive words of a query.
#[derive(Debug)]
struct Pattern {
    words: Vec<String>,
    /// Whether the last word is a prefix.
    prefix: bool,
    /// The index of the phrase, which may have several forms.
    phrase: usize,
}

/// A place where a pattern matches.
#[derive(Debug)]
struct Highlight {
    range: Range<usize>,
    phrase: usize,
}

impl Highlighter {
    /// Creates a highlighter for a query as it was searched
    /// ([`SearchResults::terms`](super::SearchResults::terms)). Stop words are not highlighted
    /// unless the query has no other words.
    pub fn new(terms: &Terms) -> Self {
        let only_stop_words = terms.phrases.iter().all(Phrase::is_stop_word);
        let phrases = terms.phrases.iter().enumerate();
        let phrases = phrases.filter(|(_, phrase)| only_stop_words || !phrase.is_stop_word());
        let patterns = phrases.flat_map(|(index, phrase)| {
            phrase.forms().map(move |form| Pattern {
                words: tokenize(form).collect(),
                prefix: phrase.prefix,
                phrase: index,
            })
        });
        Self { patterns: patterns.collect() }
    }

    /// Returns the part of a hit's content with most of the query's words, or its title if only
    /// that has some. The snippet of a hit by meaning is the beginning of its content.
    pub fn snippet(&self, hit: &SearchHit) -> Snippet {
        let content = single_line(&hit.memory.content);
        if hit.matched_by == Some(MatchedBy::Meaning) {
            return beginning(&content);
        }
        let in_title = || self.best_part(&single_line(hit.memory.title.as_deref()?));
        self.best_part(&content).or_else(in_title).unwrap_or_else(|| beginning(&content))
    }

    /// Returns the part of a line with most of the query's words, if it has any.
    fn best_part(&self, line: &str) -> Option<Snippet> {
        let highlights = self.highlights(line);
        let densest = densest(line, &highlights)?;
        Some(cut(line, widen(line, &densest), &highlights))
    }

    /// Returns the places where a pattern matches, in order of their beginnings.
    fn highlights(&self, line: &str) -> Vec<Highlight> {
        let tokens = tokens(line);
        let mut highlights = Vec::new();
        for at in 0..tokens.len() {
            highlights.extend(self.patterns.iter().filter_map(|pattern| {
                let range = pattern.match_at_start(&tokens[at..], line)?;
                Some(Highlight { range, phrase: pattern.phrase })
            }));
        }
        highlights
    }
}

impl Pattern {
    /// Returns the bytes of `line` that match, if the first tokens are the words of the pattern.
    fn match_at_start(&self, tokens: &[Token], line: &str) -> Option<Range<usize>> {
        let (last, before) = self.words.split_last()?;
        let (first_tokens, rest) = tokens.split_at_checked(before.len())?;
        let token = rest.first()?;
        let is_last =
            if self.prefix { token.word.starts_with(last.as_str()) } else { token.word == *last };
        if !is_last || !first_tokens.iter().map(|token| &token.word).eq(before) {
            return None;
        }
        let start = tokens.first()?.range.start;
        let mut end = token.range.end;
        if self.prefix {
            let mut characters = line[token.range.clone()].char_indices();
            let after = characters.nth(last.chars().count());
            end = after.map_or(end, |(len, _)| token.range.start + len);
        }
        Some(start..end)
    }
}

/// Returns the beginning of a text on one line.
fn single_line(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(MAX_SEARCHED_LEN)];
    let mut line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    if start.len() < text.len() {
        line.push_str(" …");
    }
    line
}

/// Returns the beginning of a line as a snippet without matching words.
fn beginning(line: &str) -> Snippet {
    cut(line, widen(line, &(0..0)), &[])
}

/// Returns the first range that fits into a snippet and contains the most different phrases.
fn densest(line: &str, highlights: &[Highlight]) -> Option<Range<usize>> {
    let all = highlights.iter().map(|highlight| highlight.phrase).collect::<BTreeSet<_>>().len();
    let mut best: Option<(usize, Range<usize>)> = None;
    for (at, first) in highlights.iter().enumerate() {
        let mut range = first.range.clone();
        let mut width = text_width(&line[range.clone()]);
        let mut phrases = BTreeSet::from([first.phrase]);
        for next in &highlights[at + 1..] {
            if next.range.end > range.end {
                width += text_width(&line[range.end..next.range.end]);
                if width > MAX_WIDTH {
                    break;
                }
                range.end = next.range.end;
            }
            phrases.insert(next.phrase);
        }
        if best.as_ref().is_none_or(|(most, _)| phrases.len() > *most) {
            best = Some((phrases.len(), range));
        }
        if phrases.len() == all {
            break;
        }
    }
    best.map(|(_, range)| range)
}

/// Returns a range around `part` that fills a snippet and begins and ends between words.
fn widen(line: &str, part: &Range<usize>) -> Range<usize> {
    let part = part.start..part.end.min(forward(line, part.start, MAX_WIDTH));
    let spare = MAX_WIDTH.saturating_sub(text_width(&line[part.clone()]));
    let (before, after) = (text_width(&line[..part.start]), text_width(&line[part.end..]));
    let left = (spare / 2).max(spare.saturating_sub(after)).min(before);
    let start = backward(line, part.start, left);
    let end = forward(line, part.end, spare - left);
    let start = (start..=part.start).find(|&at| is_between_words(line, at));
    let end = (part.end..=end).rev().find(|&at| is_between_words(line, at));
    start.unwrap_or(part.start)..end.unwrap_or(part.end)
}

/// Cuts a range out of a line.
fn cut(line: &str, range: Range<usize>, highlights: &[Highlight]) -> Snippet {
    let mut start = range.start;
    let untrimmed = &line[range];
    let part = untrimmed.trim();
    start += untrimmed.len() - untrimmed.trim_start().len();
    let end = start + part.len();
    let (lead, trail) =
        (if start > 0 { "… " } else { "" }, if end < line.len() { " …" } else { "" });
    let mut merged: Vec<Range<usize>> = Vec::new();
    for Highlight { range, .. } in highlights {
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from >= to {
            continue;
        }
        let range = from - start + lead.len()..to - start + lead.len();
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    Snippet { text: format!("{lead}{part}{trail}"), highlights: merged }
}

/// Returns whether no word is split at this byte of a line.
fn is_between_words(line: &str, at: usize) -> bool {
    let Some((before, after)) = line.split_at_checked(at) else { return false };
    let is_border = |c: Option<char>| c.is_none_or(|c| c == ' ' || is_unsegmented(c));
    is_border(before.chars().next_back()) || is_border(after.chars().next())
}

/// Returns where at most `width` columns from byte `start` on end.
fn forward(line: &str, start: usize, width: usize) -> usize {
    let mut left = width;
    for (at, c) in line[start..].char_indices() {
        let Some(rest) = left.checked_sub(char_width(c)) else { return start + at };
        left = rest;
    }
    line.len()
}

/// Returns where at most `width` columns up to byte `end` begin.
fn backward(line: &str, end: usize, width: usize) -> usize {
    let mut left = width;
    for (at, c) in line[..end].char_indices().rev() {
        let Some(rest) = left.checked_sub(char_width(c)) else { return at + c.len_utf8() };
        left = rest;
    }
    0
}

fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the number of columns of a character. Characters beyond ASCII count twice, because they
/// take more bytes and tokens.
fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use mif::Memory;

    use super::super::query::Need;
    use super::*;

    fn hit(title: &str, content: &str, matched_by: MatchedBy) -> SearchHit {
        let json = serde_json::json!({
            "id": "00000000-0000-7000-8000-000000000001", "memory_type": "semantic",
            "title": title, "content": content, "created": "2026-01-15T10:30:00Z",
        });
        let memory = Memory::from_json(&json.to_string()).expect("a memory");
        SearchHit { memory, score: 1.0, lexical: None, vector: None, matched_by: Some(matched_by) }
    }

    fn snippet_of(terms: &Terms, content: &str) -> Snippet {
        let snippet = Highlighter::new(terms).snippet(&hit("Title", content, MatchedBy::Words));
        assert!(text_width(&snippet.text) <= MAX_WIDTH + 6, "{}", snippet.text);
        snippet
    }

    fn marked(query: &str, need: Need, content: &str) -> String {
        snippet_of(&Terms::parse(query, need), content).to_markdown()
    }

    fn any(query: &str, content: &str) -> String {
        marked(query, Need::Any, content)
    }

    #[test]
    fn words_are_found_by_their_stems() {
        let content = "We deployed on Thursdays;\n\tdeploying took Caroline's CAFÉ an hour.";
        assert_eq!(
            any("When do we deploy at Caroline's cafes?", content),
            "We **deployed** on Thursdays; **deploying** took **Caroline**'s **CAFÉ** an hour."
        );
        assert_eq!(any("redis", content), content.replace("\n\t", " "), "no word, no marks");
    }

    #[test]
    fn a_phrase_is_marked_only_as_a_whole() {
        let content = "Be on time. The on-call rota: on call from Monday.";
        assert_eq!(
            any("\"on call\"", content),
            "Be on time. The **on-call** rota: **on call** from Monday."
        );
        let stop_words = "the rota and on";
        assert_eq!(marked(stop_words, Need::All, "the rota, and on"), "the **rota**, and on");
        assert_eq!(any("to be", "to be or not to be"), "**to** **be** or not **to** **be**");
    }

    #[test]
    fn corrected_words_are_marked() {
        let mut terms = Terms::parse("deplyo", Need::Any);
        terms.phrases[0].alternatives = vec!["deploy".to_owned(), "employ".to_owned()];
        let snippet = snippet_of(&terms, "They employ people who deploy. deplyo");
        assert_eq!(snippet.to_markdown(), "They **employ** people who **deploy**. deplyo");
    }

    #[test]
    fn scripts_without_spaces_are_marked_by_character() {
        let content = "我们选择了PostgreSQL数据库，因为它支持JSON。";
        assert_eq!(
            any("数据库 postgresql", content),
            "我们选择了**PostgreSQL数据库**，因为它支持JSON。"
        );
        assert_eq!(
            marked("数据库", Need::All, content),
            "我们选择了PostgreSQL**数据库**，因为它支持JSON。"
        );
        // A single character is a prefix, at the end of a run and before.
        assert_eq!(any("库", "数据库。库存"), "数据**库**。**库**存");
        let long = format!("{}数据库{}", "前".repeat(300), "后".repeat(300));
        let found = any("数据库", &long);
        assert!(found.starts_with("… 前") && found.ends_with("后 …"), "{found}");
        assert!(found.contains("前**数据库**后"), "{found}");
        assert_eq!(found.matches(['前', '后']).count(), 56, "{found}");
    }

    #[test]
    fn the_part_with_most_of_the_words_is_shown() {
        let filler = "Something else was written here. ".repeat(20);
        let content = format!("Backups. {filler}Redis backups run at night. {filler}Redis.");
        let found = any("redis backups night", &content);
        assert!(found.contains("**Redis** **backups** run at **night**."), "{found}");
        assert!(found.starts_with("… ") && found.ends_with(" …"), "{found}");
        let mut words =
            found.split(' ').filter(|word| *word != "…").map(|word| word.replace("**", ""));
        let all: Vec<&str> = content.split(' ').collect();
        assert!(words.all(|word| all.contains(&word.as_str())), "{found}");
        // The beginning and the end of the text need no ellipsis, and use all of the width.
        let first = any("backups", &content);
        assert!(first.starts_with("**Backups**. Something") && first.len() > 100, "{first}");
        let last = any("redis", &format!("{filler}Redis."));
        assert!(last.ends_with(" **Redis**.") && last.len() > 100, "{last}");
    }

    #[test]
    fn long_words_and_phrases_are_cut() {
        let word = "x".repeat(5_000);
        let found = snippet_of(&Terms::parse(&word, Need::Any), &format!("see {word} there"));
        assert_eq!(found.text, format!("… {} …", "x".repeat(MAX_WIDTH)));
        assert_eq!(found.highlights.len(), 1);
        let content = format!("{} last", "many words ".repeat(2_000));
        assert!(any("last", &content).starts_with("many words many"), "beyond what is searched");
        assert_eq!(beginning("").text, "");
    }

    #[test]
    fn a_title_is_shown_if_only_it_matches() {
        let highlighter = Highlighter::new(&Terms::parse("release", Need::Any));
        let content = "First run the tests.\nThen push a tag.";
        let found = highlighter.snippet(&hit("How to release", content, MatchedBy::Both));
        assert_eq!(found.to_markdown(), "How to **release**");
        let found = highlighter.snippet(&hit("How to deploy", content, MatchedBy::Words));
        assert_eq!(found.to_markdown(), "First run the tests. Then push a tag.");
        let content = "We release on Thursdays.";
        let found = highlighter.snippet(&hit("Release", content, MatchedBy::Meaning));
        assert_eq!((found.to_markdown().as_str(), found.highlights), (content, Vec::new()));
    }

    #[test]
    fn marks_of_a_memory_are_escaped() {
        assert_eq!(any("rm", r"run **rm** C:\* now"), r"run \*\***rm**\*\* C:\\\* now");
    }
}
