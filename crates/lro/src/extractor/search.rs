//! Searches everything that is stored, or one text of it.

use std::time::Instant;

use lro_query::search::{Case, GroupCounts, LineFormat, Search, SearchError};
use lro_query::{Offset, Page, PatternError, Total};
use lro_spool::{PositionedRead, StoredForm, StoredResult, records_offset};
use serde_json::{Value, json};

use super::Extractor;
use crate::extract_error::ExtractError;
use crate::outside::{Outside, OutsideText, line_format, matches, text_format};
use crate::query::{Query, QueryKind, QueryTarget, Reply, ReplyUnit, match_to_json};
use crate::query_source::{has_records, original_text, selected_text};
use crate::repair::pattern::{readings, without_look_around};

/// The matches outside the records that come before those in the records.
const MAX_OUTSIDE_MATCHES: u64 = 5;

/// The arguments of a search, without its pattern.
#[derive(Clone, Copy)]
struct SearchArguments {
    case: Case,
    most: usize,
    context: usize,
    offset: Offset,
    group_by: Option<usize>,
}

/// What is searched.
struct Searched<'a> {
    stored: &'a dyn StoredResult,
    /// The records or the text, and where they begin.
    main: &'a dyn PositionedRead,
    begin: u64,
    format: LineFormat,
    outside: Outside,
    /// Whether `main` is a further text or the original.
    is_selected: bool,
}

impl Extractor {
    /// Searches the records or the text, the members around the records, and the further texts.
    pub(super) fn search(
        &self,
        stored: &dyn StoredResult,
        query: &Query,
    ) -> Result<Reply, ExtractError> {
        let QueryKind::Search { pattern, case, most, context, offset, group_by } = &query.wanted
        else {
            return Err(ExtractError::NotOffered { way: "search" });
        };
        let arguments = SearchArguments {
            case: *case,
            most: *most,
            context: *context,
            offset: *offset,
            group_by: *group_by,
        };
        let selected = selected_text(stored, query)?;
        let searched = match &selected {
            Some(text) => Searched {
                stored,
                main: &**text,
                begin: 0,
                format: match (query.target, stored.listed().sidecar.content) {
                    (QueryTarget::Original, StoredForm::Table) => LineFormat::Text,
                    (QueryTarget::Original, _) if query.part.unwrap_or(0) == 0 => {
                        line_format(stored)
                    }
                    _ => text_format(&**text),
                },
                outside: Outside::default(),
                is_selected: true,
            },
            None => Searched {
                stored,
                main: stored,
                begin: if has_records(stored) { records_offset(stored)? } else { 0 },
                format: line_format(stored),
                outside: Outside::open(stored, query.part.is_some())?,
                is_selected: false,
            },
        };
        let reply = self.search_readings(&searched, pattern, arguments)?;
        if reply.total.number() == 0
            && let Some(found) = self.search_original(&searched, query, pattern, arguments)
        {
            return Ok(found);
        }
        if reply.total.number() == 0
            && let Some(found) = self.search_decoded(searched, pattern, arguments)
        {
            return Ok(found);
        }
        Ok(reply)
    }

    /// Searches a text in which JSON may be embedded, with its escapes decoded. `None` if nothing is
    /// found there either.
    fn search_decoded(
        &self,
        mut searched: Searched<'_>,
        pattern: &str,
        arguments: SearchArguments,
    ) -> Option<Reply> {
        let is_plain = searched.format == LineFormat::Text;
        if !is_plain && !searched.outside.texts.iter().any(OutsideText::is_plain) {
            // Everything was searched with its escapes decoded already.
            return None;
        }
        searched.format = LineFormat::Json;
        for text in searched.outside.texts.iter_mut().filter(|text| text.is_plain()) {
            text.format = LineFormat::Json;
        }
        let mut reply = self.search_pattern(&searched, pattern, arguments).ok()?;
        reply.notes.insert(0, "found with the escapes of JSON decoded".to_owned());
        (reply.total.number() > 0).then_some(reply)
    }

    /// Searches the original, in which the records may be spelled differently. `None` if nothing is
    /// found there either.
    fn search_original(
        &self,
        searched: &Searched<'_>,
        query: &Query,
        pattern: &str,
        arguments: SearchArguments,
    ) -> Option<Reply> {
        let stored = searched.stored;
        let has_records = has_records(stored) && stored.listed().sidecar.header.count > 0;
        if searched.is_selected || query.part.is_some() || !has_records {
            return None;
        }
        let original = original_text(stored).ok()?;
        let original = Searched {
            stored,
            main: &*original,
            begin: 0,
            format: LineFormat::Text,
            outside: Outside::default(),
            is_selected: true,
        };
        let mut reply = self.search_pattern(&original, pattern, arguments).ok()?;
        let note = "found in the original, as with target=\"original\": records are stored in \
                    another spelling";
        reply.notes.insert(0, note.to_owned());
        (reply.total.number() > 0).then_some(reply)
    }

    /// Searches for a pattern, and for other readings of it if it is invalid or matches nothing.
    fn search_readings(
        &self,
        searched: &Searched<'_>,
        pattern: &str,
        arguments: SearchArguments,
    ) -> Result<Reply, ExtractError> {
        let result = self.search_pattern(searched, pattern, arguments);
        let other_readings = match &result {
            Ok(reply) if reply.total.number() == 0 => readings(pattern),
            Err(ExtractError::Search(SearchError::Pattern(PatternError::Syntax { .. }))) => {
                readings(pattern)
            }
            Err(ExtractError::Search(SearchError::Pattern(PatternError::LookAround))) => {
                without_look_around(pattern).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let mut valid = None;
        for reading in other_readings {
            let mut arguments = arguments;
            if reading.is_grouped {
                arguments.group_by = arguments.group_by.map(|number| number + 1);
            }
            let Ok(mut reply) = self.search_pattern(searched, &reading.pattern, arguments) else {
                continue;
            };
            reply.notes.insert(0, reading.note.to_owned());
            if reply.total.number() > 0 {
                return Ok(reply);
            }
            valid.get_or_insert(reply);
        }
        match (result, valid) {
            (Err(_), Some(reply)) => Ok(reply),
            (
                Err(error @ ExtractError::Search(SearchError::Pattern(PatternError::LookAround))),
                None,
            ) => Err(self.look_around_error(error, searched)),
            (result, _) => result,
        }
    }

    /// Look-around over two conditions is a statement with two conditions.
    fn look_around_error(&self, error: ExtractError, searched: &Searched<'_>) -> ExtractError {
        if !self.capabilities().sql {
            return error;
        }
        let column = match searched.format {
            LineFormat::Text => "text",
            LineFormat::Json => "_record",
        };
        let sql = format!(
            "SELECT * FROM results WHERE {column} REGEXP 'wanted' AND {column} NOT REGEXP 'unwanted'"
        );
        error.corrected(self.call(searched.stored, &format!("sql={}", json!(sql))))
    }

    fn search_pattern(
        &self,
        searched: &Searched<'_>,
        pattern: &str,
        arguments: SearchArguments,
    ) -> Result<Reply, ExtractError> {
        let SearchArguments { case, most, context, offset, group_by } = arguments;
        let mut search =
            Search::new(pattern, case).map_err(SearchError::from)?.context(context, context);
        if let Some(limit) = self.time_limit {
            search = search.deadline(Instant::now() + limit);
        }
        if let Some(number) = group_by {
            let counted = self.count_groups(searched, &search, number, most, offset);
            let no_groups = PatternError::NoGroup { number, groups: 0 };
            return match counted {
                Err(ExtractError::Search(SearchError::Pattern(error))) if error == no_groups => {
                    let mut reply = self.count_groups(searched, &search, 0, most, offset)?;
                    let note = "the pattern has no capture group, so whole matches are counted";
                    reply.notes.insert(0, note.to_owned());
                    Ok(reply)
                }
                other => other,
            };
        }
        let offset = match offset {
            Offset::FromStart(offset) => offset,
            Offset::FromEnd(_) => offset.resolve(searched.count(&search)?),
        };
        self.matching_lines(searched, &search, Page { offset, limit: most as u64 })
    }

    fn matching_lines(
        &self,
        searched: &Searched<'_>,
        search: &Search,
        page: Page,
    ) -> Result<Reply, ExtractError> {
        let (matched, totals) = searched.page(search, page)?;
        let mut reply = self.reply_builder();
        for line in matched {
            if !reply.add(line.to_string().as_bytes()) {
                break;
            }
        }
        let total = Total::Exactly(totals.main + totals.outside);
        let mut reply = reply.finish(ReplyUnit::MatchingLines, total, page.offset);
        if total.number() == 0 {
            reply.notes.push(format!("no match in {}", searched.describe(totals.lines)));
        } else if reply.given == 0 {
            let last = total.number() - 1;
            reply.notes.push(format!("the last match is offset={last}. Call again with offset=0"));
        }
        if totals.outside > 0 {
            reply.notes.push(format!(
                "{} outside the {}: \"in\" or \"part\" says where",
                matches(totals.outside),
                if has_records(searched.stored) { "records" } else { "main text" }
            ));
        }
        Ok(reply)
    }

    fn count_groups(
        &self,
        searched: &Searched<'_>,
        search: &Search,
        number: usize,
        most: usize,
        offset: Offset,
    ) -> Result<Reply, ExtractError> {
        let mut counts = GroupCounts::default();
        search.count_groups(searched.main, searched.begin, searched.format, number, &mut counts)?;
        let lines = counts.lines;
        for text in &searched.outside.texts {
            search.count_groups(text.source(), 0, text.format, number, &mut counts)?;
        }
        let (matched, matching_lines) = (counts.matches, counts.matching_lines);
        let groups = counts.into_sorted();
        let total = groups.len() as u64;
        let offset = offset.resolve(total);
        let mut reply = self.reply_builder();
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for group in groups.iter().skip(first).take(most) {
            let line = json!({"value": group.value, "count": group.count}).to_string();
            if !reply.add(line.as_bytes()) {
                break;
            }
        }
        let mut reply = reply.finish(ReplyUnit::Groups, Total::Exactly(total), offset);
        reply.notes.push(if total == 0 {
            format!("no match in {}", searched.describe(lines))
        } else {
            format!("{matched} matches in {matching_lines} lines")
        });
        Ok(reply)
    }
}

/// The numbers of matching lines, and of the lines of the main text.
struct SearchTotals {
    main: u64,
    outside: u64,
    lines: u64,
}

impl Searched<'_> {
    /// The matching lines of one page.
    ///
    /// The first matches outside the records come first, so that they are not lost behind many others;
    /// the rest of them comes last.
    fn page(&self, search: &Search, page: Page) -> Result<(Vec<Value>, SearchTotals), SearchError> {
        let first = Page {
            offset: page.offset,
            limit: MAX_OUTSIDE_MATCHES.saturating_sub(page.offset).min(page.limit),
        };
        let outside = self.outside.find(search, first)?;
        let before = outside.total.min(MAX_OUTSIDE_MATCHES);
        let mut matched = outside.matches;
        let left = |matched: &Vec<Value>| page.limit - matched.len() as u64;
        let offset = page.offset.saturating_sub(before);
        let in_main = Page { offset, limit: left(&matched) };
        let main = search.run_page(self.main, self.begin, self.format, in_main)?;
        matched.extend(main.matches.iter().map(match_to_json));
        let in_main = main.total.number();
        let totals = SearchTotals { main: in_main, outside: outside.total, lines: main.lines };
        if outside.total > before && left(&matched) > 0 {
            let offset = before + page.offset.saturating_sub(before + in_main);
            let last = Page { offset, limit: left(&matched) };
            matched.extend(self.outside.find(search, last)?.matches);
        }
        Ok((matched, totals))
    }

    /// The number of matching lines.
    fn count(&self, search: &Search) -> Result<u64, SearchError> {
        let none = Page { offset: 0, limit: 0 };
        let outside = self.outside.find(search, none)?.total;
        let main = search.run_page(self.main, self.begin, self.format, none)?;
        Ok(outside + main.total.number())
    }

    /// What was searched, in words.
    fn describe(&self, lines: u64) -> String {
        if self.is_selected {
            let unit = if lines == 1 { "line" } else { "lines" };
            return format!("{lines} {unit} of this text");
        }
        self.outside.searched(self.stored, lines)
    }
}
