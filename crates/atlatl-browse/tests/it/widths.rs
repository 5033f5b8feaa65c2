//! Every screen at the widths of a phone-sized window, of the usual one, and of wide ones.

use std::fmt::Write as _;

use atlatl_browse::RowContent;

use crate::harness::{opened, press, products, text};

const WIDTHS: [u16; 4] = [60, 80, 120, 200];
const HEIGHT: u16 = 12;

/// The screen after these keys, at each width.
fn at_all_widths(lines: &str, content: RowContent, keys: &str) -> String {
    WIDTHS.iter().fold(String::new(), |mut all, width| {
        let size = (*width, HEIGHT);
        let mut screen = opened(lines, content, size);
        press(&mut screen, keys);
        let shown = text(&screen, size);
        for line in shown.lines() {
            let cells = ratatui::text::Span::raw(line).width();
            assert!(cells <= usize::from(*width), "{cells} cells of {width}: {line}");
        }
        writeln!(all, "-- {width} columns\n{shown}").unwrap();
        all
    })
}

#[test]
fn g77_a_table_fits() {
    insta::assert_snapshot!(at_all_widths(&products(5000), RowContent::Records, ""));
}

#[test]
fn g77_a_filtered_and_sorted_table_fits() {
    let keys = "lls/lamp<enter>n";
    insta::assert_snapshot!(at_all_widths(&products(5000), RowContent::Records, keys));
}

#[test]
fn g77_a_record_fits() {
    insta::assert_snapshot!(at_all_widths(&products(5000), RowContent::Records, "jj<enter>"));
}

#[test]
fn g77_value_counts_fit() {
    insta::assert_snapshot!(at_all_widths(&products(5000), RowContent::Records, "lv"));
}

#[test]
fn g77_the_keys_fit() {
    insta::assert_snapshot!(at_all_widths(&products(50), RowContent::Records, "?"));
}

#[test]
fn g77_a_prompt_fits() {
    let keys = ":price > 10 and name like '%lamp%' and stock is not null and note <lt>> ''";
    insta::assert_snapshot!(at_all_widths(&products(50), RowContent::Records, keys));
}

#[test]
fn g77_text_fits() {
    let lines = (0..40).fold(String::new(), |mut lines, n| {
        writeln!(lines, "2027-01-15T08:00:{n:02}Z INFO request {} done", "x".repeat(n * 8))
            .unwrap();
        lines
    });
    insta::assert_snapshot!(at_all_widths(&lines, RowContent::Text, "jjjj"));
}
