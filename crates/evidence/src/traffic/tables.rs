//! The tables of recorded traffic, from aggregate figures only.

use std::fmt::Write as _;

use super::measure::Shape;
use super::simulate::Behaviour;
use super::{StoredResults, TrafficResults, percent};

/// All tables and their texts.
pub(super) fn tables(results: &TrafficResults) -> String {
    let mut text = format!(
        "{} runs with {} tool results of {} tokens (o200k); {} results are errors. {} runs could not be read, and {} \
         results could not be measured.\n\n",
        with_separators(results.runs as u64),
        with_separators(results.results),
        with_separators(results.tokens),
        with_separators(results.errors),
        results.unreadable_runs,
        results.unmeasured
    );
    text += &servers_table(results);
    text += "\n\n";
    text += &sizes_table(results);
    text += "\n\n";
    text += &shapes_table(results);
    text += "\n\n";
    text += &stored_text(&results.stored);
    text += "\n\n";
    text += &net_table(results);
    text += "\n\n";
    text += &recommendation(results);
    text
}

fn servers_table(results: &TrafficResults) -> String {
    let mut table = String::from(
        "| server | runs | ended by a full context window | results | tokens | from 10,000 tokens on: results | tokens |\n\
         |---|--:|--:|--:|--:|--:|--:|",
    );
    for (name, server) in &results.servers {
        let _ = write!(
            table,
            "\n| {name} | {} | {} | {} | {} | {:.1} % | {:.0} % |",
            server.runs,
            server.overflowed_runs,
            with_separators(server.results),
            with_separators(server.tokens),
            percent(server.large_results, server.results),
            percent(server.large_tokens, server.tokens)
        );
    }
    table
}

fn sizes_table(results: &TrafficResults) -> String {
    let mut table = String::from(
        "| size in tokens | results | of all results | of all tokens |\n|---|--:|--:|--:|",
    );
    for (n, size) in results.sizes.iter().enumerate() {
        let range = match results.sizes.get(n + 1) {
            Some(next) => format!(
                "{}–{}",
                with_separators(size.from_tokens),
                with_separators(next.from_tokens - 1)
            ),
            None => format!("from {} on", with_separators(size.from_tokens)),
        };
        let _ = write!(
            table,
            "\n| {range} | {} | {:.1} % | {:.1} % |",
            with_separators(size.results),
            percent(size.results, results.results),
            percent(size.tokens, results.tokens)
        );
    }
    table
}

fn shapes_table(results: &TrafficResults) -> String {
    let mut table = String::from(
        "| shape | results | of all results | of all tokens | from 10,000 tokens on | of the stored, every byte shown or named |\n\
         |---|--:|--:|--:|--:|--:|",
    );
    for shape in Shape::ALL {
        let Some(found) = results.shapes.get(&shape) else { continue };
        let accounted = match found.stored {
            0 => "\u{2013}".to_owned(),
            stored => format!(
                "{} of {}, {:.2} %",
                with_separators(found.accounted),
                with_separators(stored),
                percent(found.accounted, stored)
            ),
        };
        let _ = write!(
            table,
            "\n| {} | {} | {:.1} % | {:.1} % | {} | {accounted} |",
            shape.title(),
            with_separators(found.results),
            percent(found.results, results.results),
            percent(found.tokens, results.tokens),
            found.large_results
        );
    }
    table
}

fn stored_text(stored: &StoredResults) -> String {
    let gaps: Vec<String> = stored.gaps.iter().map(|(gap, n)| format!("{gap:?} {n}")).collect();
    let gaps = if gaps.is_empty() { String::new() } else { format!(" ({})", gaps.join(", ")) };
    format!(
        "Every result that is not an error was stored and read again: {} of {} are the same byte for byte, {} without \
         white space between the lexemes of JSON, {} differ. The descriptors show or name every byte of {} of {} \
         results, {:.2} %{gaps}. A text, lines of JSON, CSV and a table in text have no members beside the records: \
         for them, named means that their size is stated, so their share is complete by definition.",
        with_separators(stored.exact),
        with_separators(stored.results),
        stored.same_lexemes,
        stored.different,
        with_separators(stored.accounted),
        with_separators(stored.results),
        percent(stored.accounted, stored.results)
    )
}

fn net_table(results: &TrafficResults) -> String {
    let mut table = String::from("| threshold | results replaced | their tokens |");
    for behaviour in Behaviour::ALL {
        let _ = write!(table, " {} |", behaviour.title());
    }
    let _ = write!(
        table,
        " of {} overflows avoided, at most | median of these conversations |\n|--:|--:|--:|",
        results.overflowed_runs
    );
    table += &"--:|".repeat(Behaviour::ALL.len() + 2);
    for threshold in &results.thresholds {
        let _ = write!(
            table,
            "\n| {} | {:.1} % | {:.0} % |",
            with_separators(threshold.threshold),
            percent(threshold.replaced_results, results.results),
            percent(threshold.replaced_tokens, results.tokens)
        );
        for one in &threshold.behaviours {
            let _ = write!(table, " {}", change(one.change_percent));
            if let Some(of_api) = one.api_change_percent {
                let _ = write!(table, " ({})", change(of_api));
            }
            table += " |";
        }
        let avoided: Vec<String> =
            threshold.behaviours.iter().map(|one| one.overflows_avoided.to_string()).collect();
        let median = threshold
            .overflowed_median_tokens
            .map_or_else(|| "–".to_owned(), |tokens| format!("{tokens:.0}"));
        let _ = write!(table, " {} | {median} |", avoided.join(" / "));
    }
    let recorded = &results.recorded;
    format!(
        "Input tokens over all requests, compared with the {} that were recorded without the refused requests of the {} \
         runs that overflowed. Assumed: a result from the threshold on is replaced by its descriptor; after the results \
         of a turn, the model makes so many further calls for each of these, each a request of its own with a reply of \
         so many tokens that stays in the conversation; everything else is as recorded, and the refused requests are \
         made. Every request also has the {} tokens of the extraction tools. System texts and the tools of the servers \
         are not in the recordings. In parentheses: the same difference in per cent of the {} input tokens that the \
         API counted for {} of the runs, which include both, in tokens of its own. The overflows avoided are an upper \
         bound: these runs would have gone on.\n\n\
         {table}",
        with_separators(recorded.tokens),
        results.overflowed_runs,
        with_separators(results.definitions_tokens),
        with_separators(recorded.api_tokens),
        recorded.counted_runs
    )
}

fn recommendation(results: &TrafficResults) -> String {
    let find = |tokens: u64| results.thresholds.iter().find(|one| one.threshold == tokens);
    let Some(best) = results.recommended_threshold.and_then(find) else { return String::new() };
    let mut text = format!(
        "Recommended threshold: {} tokens, whose worst case is the best: {} input.",
        with_separators(best.threshold),
        change(best.worst())
    );
    if let Some(low) = results.thresholds.first().filter(|low| low.threshold != best.threshold) {
        let _ = write!(
            text,
            " A lower threshold can cost: at {} the worst case is {}.",
            with_separators(low.threshold),
            change(low.worst())
        );
    }
    text
}

/// A change in per cent with its sign.
fn change(percent: f64) -> String {
    format!("{percent:+.0} %").replace('-', "\u{2212}")
}

/// A number with separators.
fn with_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(with_separators),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([change(-26.4), change(51.0)], ["\u{2212}26 %", "+51 %"]);
    }
}
