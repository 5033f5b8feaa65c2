//! Screen: a summary for a terminal.

use std::fmt::{self, Display, Formatter};

use anstyle::{AnsiColor, Style};
use atlatl_lro::stats::{Row, Summary};

use super::{known, milliseconds, per_cent, signed, span};
use crate::output::{counted, grouped, printable, size};

const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const LOST: Style = AnsiColor::Red.on_default();

/// The width that every terminal has.
const WIDTH: usize = 80;
/// As many rows as are compared at a glance.
const ROWS: usize = 12;

pub(super) fn screen(summary: &Summary) -> String {
    Screen(summary).to_string()
}

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
            writeln!(f, "  {LOST}{failed} could not be stored{LOST:#}: see `atlatl doctor`")?;
        }
        bars(f, "By server", &self.0.servers)?;
        bars(f, "By tool", &self.0.tools)?;
        match &self.0.days[..] {
            [] | [_] => {}
            days if days.len() <= ROWS => bars(f, "By day (UTC)", days)?,
            days => bars(f, "The last days (UTC)", &days[days.len() - ROWS..])?,
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

/// What it comes to, as a sum.
fn sum(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let all = &summary.all;
    let minus = |tokens: u64| signed(-tokens.cast_signed());
    let rows = [
        ("inline, without offloading", grouped(all.inline.tokens()), known(all.inline)),
        ("descriptors", minus(all.descriptors.tokens()), known(all.descriptors)),
        ("replies to questions", minus(all.reply_tokens.tokens()), known(all.reply_tokens)),
        ("tool definitions", minus(all.definitions.tokens()), known(all.definitions)),
    ];
    let net = signed(all.net_tokens());
    let width = rows.iter().map(|(_, tokens, _)| tokens.chars().count()).max().unwrap_or(0);
    let width = width.max(net.chars().count());
    for (name, tokens, known) in rows {
        writeln!(f, "  {name:<26}  {tokens:>width$}  {FAINT}{known}{FAINT:#}")?;
    }
    let style = if all.net_tokens() < 0 { LOST.bold() } else { HEADING };
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

fn bars(f: &mut Formatter<'_>, heading: &str, rows: &[Row]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{HEADING}{heading}{HEADING:#}")?;
    // The greatest and, where they are many, the least: those are what one can do something about.
    let (first, last) = if rows.len() > ROWS {
        (&rows[..ROWS - 3], &rows[rows.len() - 3..])
    } else {
        (rows, &[][..])
    };
    let shown = || first.iter().chain(last);
    let name = |row: &Row| shortened(&printable(&row.name), NAME);
    let names = shown().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let nets = shown().map(|row| signed(row.figures.net_tokens()).chars().count()).max();
    let nets = nets.unwrap_or(0);
    let room = WIDTH.saturating_sub(names + nets + 6);
    let most = rows.iter().map(|row| row.figures.net_tokens().unsigned_abs()).max();
    let most = most.unwrap_or(0).max(1);
    let line = |f: &mut Formatter<'_>, row: &Row| {
        let net = row.figures.net_tokens();
        let style = if net < 0 { LOST } else { Style::new() };
        let bar = bar(net.unsigned_abs(), most, room);
        writeln!(f, "  {:<names$}  {style}{:>nets$}  {}{style:#}", name(row), signed(net), bar)
    };
    first.iter().try_for_each(|row| line(f, row))?;
    if !last.is_empty() {
        writeln!(f, "  {FAINT}… {} more{FAINT:#}", rows.len() - first.len() - last.len())?;
    }
    last.iter().try_for_each(|row| line(f, row))
}

/// The longest name of a server or a tool that is shown.
const NAME: usize = 36;

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// A bar of at most `room` columns, in eighths of one.
fn bar(part: u64, whole: u64, room: usize) -> String {
    let eighths = u128::from(part) * room as u128 * 8 / u128::from(whole);
    let eighths = usize::try_from(eighths).unwrap_or(0);
    let mut bar = "█".repeat(eighths / 8);
    // What is there at all is seen.
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
