//! `atlatl stats`: the tokens that offloading saved, as text, JSON or an HTML page.

mod page;

use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, fs, io};

use anstyle::{AnsiColor, Style};
use atlatl_lro::stats::{Amount, Basis, Figures, Summary, SummaryRow};
use chrono::{DateTime, TimeDelta, Utc};
use lro::{IdSeed, Ledger};
use lro_core::{ClientLimit, Tokens};
use serde::Serialize;

use crate::error::{Error, Status};
use crate::ledger_sink::ledger_path;
use crate::output::{Mode, Output, counted, grouped, printable, size};
use crate::settings::{Settings, Sources};
use crate::units::{parse_count, parse_days};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl stats                       (the whole ledger)
  atlatl stats --since 7d            (the last seven days)
  atlatl stats --client-limit 10k    (for a client with this limit)
  atlatl stats --html savings.html   (a page with charts)";

/// Arguments of `atlatl stats`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Include only this time before now: 7d, 12h
    #[arg(long, alias = "days", value_name = "TIME", value_parser = parse_days)]
    since: Option<Duration>,
    /// Count at most this number of tokens of a result,
    /// as a client with this limit would show: 25k
    /// [default: the limit of each client]
    #[arg(long, value_name = "TOKENS", value_parser = parse_count, verbatim_doc_comment)]
    client_limit: Option<u64>,
    /// Write an HTML page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The statistics in JSON.
#[derive(Serialize)]
struct StatsReport<'a> {
    ledger: String,
    unreadable_lines: u64,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Runs `atlatl stats`.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let since = args.since.and_then(|since| {
        // A start before the earliest date includes everything.
        IdSeed::from_system().now.checked_sub_signed(TimeDelta::from_std(since).ok()?)
    });
    let limit = args.client_limit.map(|tokens| ClientLimit::cut(Tokens(tokens)));
    let LedgerSummary { ledger, summary, unreadable } =
        LedgerSummary::read(&settings, since, limit)?;
    if unreadable > 0 {
        let lines = counted(unreadable, "line", "lines");
        output.note(format_args!("{}: {lines} cannot be read and are skipped", ledger.display()));
    }
    if let Some(file) = &args.html {
        fs::write(file, page::render_page(&summary)).map_err(|error| {
            Error::failure(format!("{}: cannot write the page: {error}", file.display()))
        })?;
        output.note(format_args!("wrote the page to {}", file.display()));
    }
    match output.mode() {
        Mode::Json => {
            let ledger = ledger.display().to_string();
            output.json(&StatsReport {
                ledger,
                unreadable_lines: unreadable,
                summary: &summary,
            })?;
        }
        Mode::Human => {
            let width = output.width();
            output.text(&render_screen(&summary, width))?;
        }
    }
    Ok(Status::Success)
}

/// A summary of the ledger.
struct LedgerSummary {
    ledger: PathBuf,
    summary: Summary,
    unreadable: u64,
}

impl LedgerSummary {
    /// Reads the ledger from a time on. `limit` applies to all clients.
    fn read(
        settings: &Settings,
        since: Option<DateTime<Utc>>,
        limit: Option<ClientLimit>,
    ) -> Result<Self, Error> {
        let ledger = ledger_path(settings)
            .ok_or_else(|| Error::usage("ledger.path: no home directory for the ledger"))?;
        let mut unreadable = 0;
        let mut events = Vec::new();
        let lines = match Ledger::read(&ledger) {
            Ok(lines) => Some(lines),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(ledger_error(&ledger, &error)),
        };
        for line in lines.into_iter().flatten() {
            match line {
                Ok(event) if since.is_none_or(|since| event.time >= since) => events.push(event),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => unreadable += 1,
                Err(error) => return Err(ledger_error(&ledger, &error)),
            }
        }
        let summary = Summary::with_client_limit(events, limit);
        Ok(Self { ledger, summary, unreadable })
    }
}

/// The savings from a time on, in one line that names the time; `None` if nothing was stored.
pub(crate) fn headline(
    settings: &Settings,
    since: Option<DateTime<Utc>>,
    time: &str,
) -> Result<Option<String>, Error> {
    Ok(render_headline(&LedgerSummary::read(settings, since, None)?.summary.all, time))
}

fn render_headline(all: &Figures, time: &str) -> Option<String> {
    if all.results == 0 {
        return None;
    }
    let results = counted(all.results, "result", "results");
    // Before the rest of the line, which a narrow terminal cuts.
    let whole = match all.without_limit {
        0 => String::new(),
        whole => format!(" (limit of {} unknown)", grouped(whole)),
    };
    let answers = counted(all.replies, "answer", "answers");
    let net = signed(all.net_tokens());
    Some(format!("{net} tokens net {time}: {results}{whole}, {answers}"))
}

/// The savings page over the whole ledger.
pub(crate) fn savings_page(settings: &Settings) -> Result<String, Error> {
    Ok(page::render_page(&LedgerSummary::read(settings, None, None)?.summary))
}

fn ledger_error(ledger: &std::path::Path, error: &io::Error) -> Error {
    Error::failure(format!("{}: cannot read the ledger: {error}", ledger.display()))
        .with_hint("atlatl doctor")
}

/// The dates that a summary covers; `None` if it is empty.
fn span(summary: &Summary) -> Option<String> {
    let (from, to) = (summary.from?.date_naive(), summary.to?.date_naive());
    Some(if from == to { from.to_string() } else { format!("{from} to {to}") })
}

/// Whether an amount was measured or estimated.
fn basis_label(amount: Amount) -> String {
    match amount.basis() {
        Basis::PartlyEstimated => format!("{} estimated", grouped(amount.estimated)),
        basis => basis.as_str().to_owned(),
    }
}

/// Formats a signed number with U+2212, which is as wide as a digit.
fn signed(number: i64) -> String {
    let sign = if number < 0 { "\u{2212}" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

fn per_cent(number: f64) -> String {
    // About two significant digits.
    if number.abs() < 1.0 { format!("{number:.2} %") } else { format!("{number:.0} %") }
}

fn milliseconds(time: f64) -> String {
    if time < 10.0 { format!("{time:.1} ms") } else { format!("{time:.0} ms") }
}

const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const NEGATIVE: Style = AnsiColor::Red.on_default();

/// The width of the lines without a terminal, and the largest one: longer bars show no more.
const LINE_WIDTH: usize = 80;
const MAX_LINE_WIDTH: usize = 120;
/// The maximum number of rows per chart.
const MAX_ROWS: usize = 12;
/// The maximum width of a server or tool name.
const MAX_NAME_WIDTH: usize = 36;

/// Renders a summary for a terminal of this width.
fn render_screen(summary: &Summary, width: Option<usize>) -> String {
    Screen { summary, width: width.unwrap_or(LINE_WIDTH).min(MAX_LINE_WIDTH) }.to_string()
}

/// A summary as text.
struct Screen<'a> {
    summary: &'a Summary,
    width: usize,
}

impl Display for Screen<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { summary, width } = *self;
        let Some(span) = span(summary) else {
            let text =
                "Nothing was offloaded yet. `atlatl install` puts your servers behind the proxy.";
            return paragraph(f, width, "", Style::new(), text);
        };
        let all = &summary.all;
        writeln!(f, "{HEADING}Tokens, {span}{HEADING:#}\n")?;
        sum(f, summary)?;
        whole_results(f, width, all)?;
        writeln!(f)?;
        let results = counted(all.results, "result", "results");
        let questions = counted(all.replies, "question", "questions");
        write!(f, "  {results} stored ({}), {questions} answered", size(all.bytes))?;
        if all.failures > 0 {
            write!(f, ", {} not", grouped(all.failures))?;
        }
        writeln!(f)?;
        let hooks = &summary.hooks;
        if hooks.results > 0 {
            let results = counted(hooks.results, "result", "results");
            let net = signed(hooks.net_tokens());
            writeln!(f, "  by hooks: {net} tokens in {results}")?;
        }
        if let Some(ratio) = all.access_ratio() {
            let (read, of) = (grouped(all.records_read), grouped(all.records));
            writeln!(f, "  {read} of {of} records read: {}", per_cent(ratio * 100.0))?;
        }
        if all.to_programs > 0 {
            let answers = counted(all.to_programs, "answer", "answers");
            writeln!(f, "  {answers} on the command line, in no model's context")?;
        }
        times(f, summary)?;
        if all.passed > 0 {
            let passed = counted(all.passed, "result", "results");
            writeln!(f, "  {passed} passed to another tool by reference")?;
        }
        if all.write_failures > 0 {
            let failed = counted(all.write_failures, "result", "results");
            writeln!(
                f,
                "  {NEGATIVE}{failed} could not be stored{NEGATIVE:#}: see `atlatl doctor`"
            )?;
        }
        bars(f, width, "By server", &summary.servers)?;
        bars(f, width, "By tool", &summary.tools)?;
        bars(f, width, "By command", &summary.commands)?;
        match &summary.days[..] {
            [] | [_] => {}
            days if days.len() <= MAX_ROWS => bars(f, width, "By day (UTC)", days)?,
            days => bars(f, width, "The last days (UTC)", &days[days.len() - MAX_ROWS..])?,
        }
        if let Some(advice) = loss_advice(all) {
            writeln!(f)?;
            paragraph(f, width, "", Style::new(), advice)?;
        }
        Ok(())
    }
}

/// What a negative net saving means for the settings. `None` if tokens were saved.
fn loss_advice(all: &Figures) -> Option<&'static str> {
    if all.net_tokens() >= 0 {
        return None;
    }
    Some(if all.net_tokens_of_whole_results() < 0 {
        "Offloading cost more than it saved. Raise proxy.threshold_tokens, or set tools at the end of the \
         list to \"inline\" in [proxy.policy]."
    } else {
        // What the client shows can be less than a descriptor takes.
        "The clients would have truncated these results themselves, so offloading saved little. No \
         setting changes that. In return, the whole results can be queried."
    })
}

/// The table of costs and the net saving.
fn sum(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let all = &summary.all;
    let minus = |tokens: u64| signed(-tokens.cast_signed());
    let rows = [
        (
            "inline, without offloading",
            grouped(all.visible_tokens.tokens()),
            basis_label(all.visible_tokens),
        ),
        ("descriptors", minus(all.descriptors.tokens()), basis_label(all.descriptors)),
        ("replies to questions", minus(all.reply_tokens.tokens()), basis_label(all.reply_tokens)),
        ("tool definitions", minus(all.definitions.tokens()), basis_label(all.definitions)),
    ];
    let net = signed(all.net_tokens());
    let width = rows.iter().map(|(_, tokens, _)| tokens.chars().count()).max().unwrap_or(0);
    let width = width.max(net.chars().count());
    for (name, tokens, basis) in rows {
        writeln!(f, "  {name:<26}  {tokens:>width$}  {FAINT}{basis}{FAINT:#}")?;
    }
    let style = if all.net_tokens() < 0 { NEGATIVE.bold() } else { HEADING };
    let share = all.saved_per_cent().map_or_else(String::new, |s| format!(", {}", per_cent(s)));
    let basis = all.net_basis().as_str();
    writeln!(
        f,
        "  {style}{:<26}  {net:>width$}{style:#}  {FAINT}{basis}{share}{FAINT:#}",
        "net saving"
    )
}

/// Says what the sum leaves out: the parts of results that a client would have cut, or that it may.
fn whole_results(f: &mut Formatter<'_>, width: usize, all: &Figures) -> fmt::Result {
    let whole = all.inline.tokens();
    if whole > all.visible_tokens.tokens() {
        let (whole, net) = (grouped(whole), signed(all.net_tokens_of_whole_results()));
        let text = format!(
            "Clients show only the beginning of very large results. Whole: {whole} tokens, net {net}."
        );
        paragraph(f, width, "  ", FAINT, &text)?;
    }
    if all.without_limit > 0 {
        let results = counted(all.without_limit, "result counts", "results count");
        let text = format!(
            "{results} whole, as the limit of the client is not known: see --client-limit."
        );
        paragraph(f, width, "  ", FAINT, &text)?;
    }
    Ok(())
}

fn times(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let all = &summary.all;
    for (what, times) in [("storing", &all.storing), ("answering", &all.answering)] {
        if let (Some(median), Some(p95)) = (times.percentile_ms(50), times.percentile_ms(95)) {
            let (median, p95) = (milliseconds(median), milliseconds(p95));
            writeln!(f, "  {what} took {median} (median), {p95} (95 %)")?;
        }
    }
    Ok(())
}

/// Writes text, wrapped between words.
fn paragraph(
    f: &mut Formatter<'_>,
    width: usize,
    indent: &str,
    style: Style,
    text: &str,
) -> fmt::Result {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.len() > width {
            writeln!(f, "{indent}{style}{line}{style:#}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(f, "{indent}{style}{line}{style:#}")
}

fn bars(f: &mut Formatter<'_>, width: usize, heading: &str, rows: &[SummaryRow]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{HEADING}{heading}{HEADING:#}")?;
    // The largest rows and, if there are many, the smallest, which the user can act on.
    let (first, last) = if rows.len() > MAX_ROWS {
        (&rows[..MAX_ROWS - 3], &rows[rows.len() - 3..])
    } else {
        (rows, &[][..])
    };
    let visible = || first.iter().chain(last);
    let name =
        |row: &SummaryRow| atlatl_browse::fit(&printable(&row.name), MAX_NAME_WIDTH).into_owned();
    let names = visible().map(|row| atlatl_browse::width(&name(row))).max().unwrap_or(0);
    let nets = visible().map(|row| signed(row.figures.net_tokens()).chars().count()).max();
    let nets = nets.unwrap_or(0);
    let width = width.saturating_sub(names + nets + 6);
    let max = rows.iter().map(|row| row.figures.net_tokens().unsigned_abs()).max();
    let max = max.unwrap_or(0).max(1);
    let line = |f: &mut Formatter<'_>, row: &SummaryRow| {
        let net = row.figures.net_tokens();
        let style = if net < 0 { NEGATIVE } else { Style::new() };
        let bar = bar(net.unsigned_abs(), max, width);
        let name = name(row);
        let gap = names.saturating_sub(atlatl_browse::width(&name));
        writeln!(f, "  {name}{:gap$}  {style}{:>nets$}  {bar}{style:#}", "", signed(net))
    };
    first.iter().try_for_each(|row| line(f, row))?;
    if !last.is_empty() {
        writeln!(f, "  {FAINT}… {} more{FAINT:#}", rows.len() - first.len() - last.len())?;
    }
    last.iter().try_for_each(|row| line(f, row))
}

/// A bar of at most `width` columns, in eighths of a column.
fn bar(part: u64, whole: u64, width: usize) -> String {
    let eighths = u128::from(part) * width as u128 * 8 / u128::from(whole);
    let eighths = usize::try_from(eighths).unwrap_or(0);
    let mut bar = "█".repeat(eighths / 8);
    // A value above zero is always visible.
    let rest = if eighths == 0 && part > 0 { 1 } else { eighths % 8 };
    bar.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get(rest.wrapping_sub(1)));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The summary of one stored result of `tokens` tokens, with further members of its event.
    fn summary(server: &str, tokens: u64, members: &str) -> Summary {
        let event = format!(
            r#"{{"time":"2026-11-14T10:00:00Z","ref":"lro:01K9ZZZZZZZZZZZZZZZZZZZZZZ",
            "event":"ResultOffloaded","tool":"list","server":"{server}","records":500,"bytes":90000,
            "inline":{{"tokens":{tokens},"method":"counted"}},"all_texts":true,{members}
            "descriptor":{{"tokens":800,"method":"counted"}},"took_us":9000}}"#
        );
        Summary::from_events([serde_json::from_str(&event).unwrap()])
    }

    /// The limit of a client that truncates results above 25,000 tokens.
    const LIMIT: &str = r#""client_limit":{"tokens":{"limit":25000,"visible_tokens":500}},"#;

    /// A summary as text on one line, and as a page.
    fn renderings(summary: &Summary) -> [String; 2] {
        let screen = anstream::adapter::strip_str(&render_screen(summary, None)).to_string();
        let words: Vec<&str> = screen.split_whitespace().collect();
        [words.join(" "), page::render_page(summary)]
    }

    #[test]
    fn g76_settings_are_no_advice_for_results_that_clients_truncate() {
        let advice = |text: &str| {
            let settings = text.contains("Raise proxy.threshold_tokens");
            (settings, text.contains("would have truncated these results themselves"))
        };
        for text in renderings(&summary("files", 90_000, LIMIT)) {
            assert_eq!(advice(&text), (false, true), "{text}");
        }
        for text in renderings(&summary("files", 600, LIMIT)) {
            assert_eq!(advice(&text), (true, false), "{text}");
        }
        for text in renderings(&summary("files", 20_000, LIMIT)) {
            assert_eq!(advice(&text), (false, false), "{text}");
        }
    }

    #[test]
    fn g76_the_headline_mentions_results_without_a_known_limit() {
        let headline =
            |members| render_headline(&summary("files", 20_000, members).all, "in 7 days").unwrap();
        assert_eq!(headline(LIMIT), "19,200 tokens net in 7 days: 1 result, 0 answers");
        let unknown = "19,200 tokens net in 7 days: 1 result (limit of 1 unknown), 0 answers";
        assert_eq!(headline(""), unknown);
        assert_eq!(render_headline(&Figures::default(), "in 7 days"), None);
    }

    #[test]
    fn names_are_cut_by_their_width() {
        let summary = summary(&"字".repeat(30), 20_000, LIMIT);
        let text = anstream::adapter::strip_str(&render_screen(&summary, Some(60))).to_string();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains('字')).collect();
        assert_eq!(lines.len(), 2, "{text}");
        for line in lines {
            assert!(line.contains('…') && atlatl_browse::width(line) <= 60, "{text}");
        }
    }

    #[test]
    fn bars_are_in_proportion_and_never_nothing() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(3, 8, 1), "▍");
    }
}
