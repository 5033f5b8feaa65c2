//! The savings page: a summary as one self-contained HTML file.
//!
//! It has no scripts, external fonts or images: bars are boxes with a relative width. Names of
//! servers and tools are untrusted and escaped.

use std::fmt::{self, Display, Formatter};

use atlatl_lro::stats::{Summary, SummaryRow};

use super::{basis_label, loss_advice, milliseconds, per_cent, signed, span};
use crate::output::{grouped, size};

const STYLE: &str = include_str!("page/style.css");

/// The number of rows at each end of a long list; `--json` has all of them.
const ROWS_PER_END: usize = 20;

/// The page for `summary`.
pub(super) fn render_page(summary: &Summary) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Atlatl: tokens saved</title>\n<style>\n{STYLE}</style>\n\
         <body>\n<h1>Tokens saved by Atlatl</h1>\n{}</body>\n</html>\n",
        Body(summary)
    )
}

struct Body<'a>(&'a Summary);

impl Display for Body<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(span) = span(self.0) else {
            return writeln!(f, "<p>Nothing was offloaded yet.</p>");
        };
        let all = &self.0.all;
        writeln!(f, "<p class=\"faint\">{span}, days in UTC</p>")?;
        let below = if all.net_tokens() < 0 { " below" } else { "" };
        writeln!(f, "<p class=\"net{below}\">{}</p>", signed(all.net_tokens()))?;
        let share = all.saved_per_cent().map_or_else(String::new, |share| {
            format!(", {} of what the results would have taken", per_cent(share))
        });
        writeln!(f, "<p>tokens net, {}{share}</p>", all.net_basis().as_str())?;
        if let Some(advice) = loss_advice(all) {
            writeln!(f, "<p>{}</p>", escape_html(advice))?;
        }
        facts(f, self.0)?;
        composition(f, self.0)?;
        by_day(f, &self.0.days)?;
        bars(f, "By server", &self.0.servers)?;
        bars(f, "By tool", &self.0.tools)?;
        bars(f, "By command", &self.0.commands)?;
        writeln!(
            f,
            "<h2>How it is counted</h2>\n<p class=\"faint\">Tokens are those of the o200k vocabulary. \
             <em>Measured</em> means that every token was counted, <em>estimated</em> that a sample or \
             the number of characters was. Net is what clients would have shown of the results, minus their \
             descriptors, the replies to queries about them, and the definitions of the extraction tools, \
             for each session that listed them. Results that were too small to be stored are not \
             included. What a client would have cut is not saved: Claude Code shows 2,000 characters of \
             results above 25,000 tokens, Codex 10,000 tokens, Gemini CLI 40,000 characters; results \
             for other clients count whole. What a model reads from a stored file with its own shell \
             is not counted.</p>"
        )
    }
}

fn facts(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let all = &summary.all;
    writeln!(f, "<dl class=\"facts\">")?;
    let mut fact = |label: &str, text: String| writeln!(f, "<div><dt>{label}<dd>{text}</div>");
    fact("results stored", grouped(all.results))?;
    fact("their size", size(all.bytes))?;
    fact("questions answered", grouped(all.replies))?;
    if all.failures > 0 {
        fact("questions not answered", grouped(all.failures))?;
    }
    if let Some(ratio) = all.access_ratio() {
        let read = format!("{} of {}", grouped(all.records_read), grouped(all.records));
        fact("records read", format!("{read} <small>{}</small>", per_cent(ratio * 100.0)))?;
    }
    let median = |label: &str, time: Option<f64>| time.map(|ms| (label.to_owned(), ms));
    let storing = median("storing, median", all.storing.percentile_ms(50));
    let answering = median("answering, median", all.answering.percentile_ms(50));
    for (label, ms) in [storing, answering].into_iter().flatten() {
        fact(&label, milliseconds(ms))?;
    }
    writeln!(f, "</dl>")
}

/// Shows how the tokens of the inline results divide into savings and costs.
fn composition(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let all = &summary.all;
    let saved = u64::try_from(all.net_tokens()).unwrap_or(0);
    let whole = all.visible_tokens.tokens().max(all.costs().tokens()).max(1);
    let parts = [
        ("d", "descriptors", all.descriptors),
        ("r", "replies", all.reply_tokens),
        ("t", "tool definitions", all.definitions),
    ];
    writeln!(f, "<h2>Where the tokens went</h2>\n<div class=\"whole\">")?;
    writeln!(f, "<i class=\"s\" style=\"width:{}\" title=\"saved\"></i>", share(saved, whole))?;
    for (class, name, amount) in parts.iter().filter(|(_, _, amount)| amount.tokens() > 0) {
        let width = share(amount.tokens(), whole);
        writeln!(f, "<i class=\"{class}\" style=\"width:{width}\" title=\"{name}\"></i>")?;
    }
    writeln!(f, "</div>\n<div class=\"scroll\"><table>")?;
    writeln!(f, "<tr><th>what<th class=\"n\">tokens<th>how it is known")?;
    let row = |f: &mut Formatter<'_>, class: &str, name: &str, tokens: String, how: &str| {
        let key = if class.is_empty() {
            String::new()
        } else {
            format!("<span class=\"key {class}\"></span>")
        };
        writeln!(f, "<tr><td>{key}{name}<td class=\"n\">{tokens}<td>{how}")
    };
    let (inline, visible) = (all.inline, all.visible_tokens);
    row(f, "", "inline, without offloading", grouped(visible.tokens()), &basis_label(visible))?;
    for (class, name, amount) in parts {
        row(f, class, name, signed(-amount.tokens().cast_signed()), &basis_label(amount))?;
    }
    let basis = all.net_basis().as_str();
    row(f, "s", "<b>net</b>", format!("<b>{}</b>", signed(all.net_tokens())), basis)?;
    if inline.tokens() > visible.tokens() {
        let net = signed(all.net_tokens_of_whole_results());
        row(f, "", "net, if clients showed every result whole", net, &basis_label(inline))?;
    }
    writeln!(f, "</table></div>")
}

fn by_day(f: &mut Formatter<'_>, days: &[SummaryRow]) -> fmt::Result {
    let [first, .., last] = days else { return Ok(()) };
    let max = max_net(days);
    writeln!(f, "<h2>By day</h2>\n<div class=\"days\">")?;
    for day in days {
        let net = day.figures.net_tokens();
        let below = if net < 0 { " class=\"below\"" } else { "" };
        let (height, title) = (share(net.unsigned_abs(), max), signed(net));
        writeln!(
            f,
            "<span{below} style=\"height:{height}\" title=\"{}: {title}\"></span>",
            day.name
        )?;
    }
    writeln!(
        f,
        "</div>\n<p class=\"ends faint\"><span>{}</span><span>{}</span></p>",
        first.name, last.name
    )?;
    let best = days.iter().max_by_key(|day| day.figures.net_tokens());
    match best {
        Some(day) => {
            let max = signed(day.figures.net_tokens());
            writeln!(
                f,
                "<p class=\"faint\">Most on {}: {max}. Red columns are days on which it cost more than it saved.</p>",
                day.name
            )
        }
        None => Ok(()),
    }
}

fn bars(f: &mut Formatter<'_>, heading: &str, rows: &[SummaryRow]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let max = max_net(rows);
    writeln!(f, "<h2>{heading}</h2>\n<div class=\"bars\">")?;
    let (first, last) = if rows.len() > 2 * ROWS_PER_END {
        (&rows[..ROWS_PER_END], &rows[rows.len() - ROWS_PER_END..])
    } else {
        (rows, &[][..])
    };
    for row in first.iter().chain(last) {
        let net = row.figures.net_tokens();
        let below = if net < 0 { " class=\"below\"" } else { "" };
        writeln!(
            f,
            "<div><span class=\"who\">{}</span><span class=\"bar\"><i{below} style=\"width:{}\"></i>\
             </span><span class=\"n\">{}</span></div>",
            escape_html(&row.name),
            share(net.unsigned_abs(), max),
            signed(net),
        )?;
    }
    writeln!(f, "</div>")?;
    if !last.is_empty() {
        let between = rows.len() - 2 * ROWS_PER_END;
        writeln!(
            f,
            "<p class=\"faint\">{between} more between the {ROWS_PER_END} best and the {ROWS_PER_END} least</p>"
        )?;
    }
    Ok(())
}

fn max_net(rows: &[SummaryRow]) -> u64 {
    rows.iter().map(|row| row.figures.net_tokens().unsigned_abs()).max().unwrap_or(0).max(1)
}

/// A CSS percentage.
fn share(part: u64, whole: u64) -> String {
    let thousandths = u128::from(part) * 100_000 / u128::from(whole);
    format!("{}.{:03}%", thousandths / 1000, thousandths % 1000)
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in lro_core::escape_invisible(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_call_themselves_stays_text() {
        let line = r#"{"time":"2026-11-14T10:00:00Z","event":"ToolsListed",
            "server":"<script>alert('x')</script>\u202e\u001b[2J&\"","definitions":{"tokens":5,"method":"counted"}}"#;
        let summary = Summary::from_events([serde_json::from_str(line).unwrap()]);
        let page = render_page(&summary);
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), "{page}");
        assert!(!page.contains("<script") && !page.contains(['\u{202e}', '\u{1b}']), "{page}");
        assert!(
            !page.contains("src=") && !page.contains("http"),
            "it needs nothing from elsewhere"
        );
    }
}
