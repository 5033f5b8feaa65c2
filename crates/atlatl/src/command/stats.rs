//! `atlatl stats`: the tokens that offloading saved, as text, JSON or an HTML page.

mod page;

use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::{fmt, fs, io};

use anstyle::{AnsiColor, Style};
use atlatl_lro::stats::{Amount, Basis, Summary, SummaryRow};
use chrono::TimeDelta;
use lro::{IdSeed, Ledger};
use serde::Serialize;

use crate::error::{Error, Status};
use crate::ledger_sink::ledger_path;
use crate::output::{Mode, Output, counted, grouped, printable, size};
use crate::settings::{Settings, Sources};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl stats                       (the whole ledger)
  atlatl stats --days 7              (the last seven days)
  atlatl stats --html savings.html   (a page with charts)";

/// Arguments of `atlatl stats`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Include only the last N days
    #[arg(long, value_name = "N")]
    days: Option<u32>,
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
    let ledger = ledger_path(&settings)
        .ok_or_else(|| Error::usage("ledger.path: no home directory for the ledger"))?;
    let since = args.days.and_then(|days| {
        // A start before the earliest date includes everything.
        IdSeed::from_system().now.checked_sub_signed(TimeDelta::days(days.into()))
    });
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
    let summary = Summary::from_events(events);
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
        Mode::Human => output.text(&render_screen(&summary))?,
    }
    Ok(Status::Success)
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
        Basis::PartlyEstimated => format!("{} of it estimated", grouped(amount.estimated)),
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

/// The assumed width of the terminal.
const LINE_WIDTH: usize = 80;
/// The maximum number of rows per chart.
const MAX_ROWS: usize = 12;
/// The maximum width of a server or tool name.
const MAX_NAME_CHARS: usize = 36;

/// Renders a summary for a terminal.
fn render_screen(summary: &Summary) -> String {
    Screen(summary).to_string()
}

/// A summary as text.
struct Screen<'a>(&'a Summary);

impl Display for Screen<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(span) = span(self.0) else {
            return writeln!(
                f,
                "Nothing was offloaded yet. `atlatl install` puts your servers behind the proxy."
            );
        };
        let all = &self.0.all;
        writeln!(f, "{HEADING}Tokens, {span}{HEADING:#}\n")?;
        sum(f, self.0)?;
        writeln!(f)?;
        let results = counted(all.results, "result", "results");
        let questions = counted(all.replies, "question", "questions");
        write!(f, "  {results} stored ({}), {questions} answered", size(all.bytes))?;
        if all.failures > 0 {
            write!(f, ", {} not", grouped(all.failures))?;
        }
        writeln!(f)?;
        let hooks = &self.0.hooks;
        if hooks.results > 0 {
            let results = counted(hooks.results, "result", "results");
            let net = signed(hooks.net_tokens());
            writeln!(
                f,
                "  by hooks: {net} tokens in {results}, without what the agent would truncate"
            )?;
        }
        if let Some(ratio) = all.access_ratio() {
            let (read, of) = (grouped(all.records_read), grouped(all.records));
            writeln!(f, "  {read} of {of} records read: {}", per_cent(ratio * 100.0))?;
        }
        times(f, self.0)?;
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
        bars(f, "By server", &self.0.servers)?;
        bars(f, "By tool", &self.0.tools)?;
        match &self.0.days[..] {
            [] | [_] => {}
            days if days.len() <= MAX_ROWS => bars(f, "By day (UTC)", days)?,
            days => bars(f, "The last days (UTC)", &days[days.len() - MAX_ROWS..])?,
        }
        if all.net_tokens() < 0 {
            writeln!(
                f,
                "\nOffloading cost more than it saved. Raise proxy.threshold_tokens, or set tools at \
                 the\nend of the list to \"inline\" in [proxy.policy]."
            )?;
        }
        Ok(())
    }
}

/// The table of costs and the net saving.
fn sum(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let all = &summary.all;
    let minus = |tokens: u64| signed(-tokens.cast_signed());
    let rows = [
        ("inline, without offloading", grouped(all.inline.tokens()), basis_label(all.inline)),
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

fn bars(f: &mut Formatter<'_>, heading: &str, rows: &[SummaryRow]) -> fmt::Result {
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
    let name = |row: &SummaryRow| truncate(&printable(&row.name), MAX_NAME_CHARS);
    let names = visible().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let nets = visible().map(|row| signed(row.figures.net_tokens()).chars().count()).max();
    let nets = nets.unwrap_or(0);
    let width = LINE_WIDTH.saturating_sub(names + nets + 6);
    let max = rows.iter().map(|row| row.figures.net_tokens().unsigned_abs()).max();
    let max = max.unwrap_or(0).max(1);
    let line = |f: &mut Formatter<'_>, row: &SummaryRow| {
        let net = row.figures.net_tokens();
        let style = if net < 0 { NEGATIVE } else { Style::new() };
        let bar = bar(net.unsigned_abs(), max, width);
        writeln!(f, "  {:<names$}  {style}{:>nets$}  {}{style:#}", name(row), signed(net), bar)
    };
    first.iter().try_for_each(|row| line(f, row))?;
    if !last.is_empty() {
        writeln!(f, "  {FAINT}… {} more{FAINT:#}", rows.len() - first.len() - last.len())?;
    }
    last.iter().try_for_each(|row| line(f, row))
}

fn truncate(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max - 1).chain(['…']).collect()
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

    #[test]
    fn bars_are_in_proportion_and_never_nothing() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(3, 8, 1), "▍");
    }
}
