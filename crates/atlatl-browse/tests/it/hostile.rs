//! Records that try to control the terminal.

use atlatl_browse::{ColorMode, HeaderInfo, RowContent, Screen};

use crate::harness::{USUAL, drawn, finish, opened, press, text};

const HOSTILE: &str = concat!(
    r#"{"id":1,"\u001b[31mname":"\u001b[2J\u001b]0;owned\u0007","x":"a\r\nb\tc"}"#,
    "\n",
    "{\"id\":2,\"x\":\"raw \u{1b}[5m \u{9b}1m \u{202e}desrever\u{2066}\"}\n",
    "{\"id\":3,\"x\":\"zero\u{200b}width \u{feff} e\u{301}\u{301}\u{301}\u{301}\u{301}\"}\n",
    "{\"id\":4,\"x\":\"broken \u{7f} {\"\n",
    "not json \u{1b}c at all\n",
);

fn assert_harmless(screen: &Screen, size: (u16, u16)) {
    for cell in drawn(screen, size).content() {
        for c in cell.symbol().chars() {
            let bidi = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!c.is_control() && !bidi && c != '\u{200b}', "{:?}", cell.symbol());
        }
    }
}

#[test]
fn hostile_cells_are_shown_and_do_nothing() {
    let mut screen = opened(HOSTILE, RowContent::Records, USUAL);
    assert_harmless(&screen, USUAL);
    let shown = text(&screen, USUAL).replace('\u{301}', "'");
    insta::assert_snapshot!(shown, @r"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 5 records · expires in 23 h
    #   id  <U+001B>[31mname                  x                                    ›
    1    1  <U+001B>[2J<U+001B>]0;owned<U+0…  a\r\nb\tc
    2    2                                    raw <U+001B>[5m <U+009B>1m <U+2…
    3    3                                    zero<U+200B>width <U+FEFF> e'''<U+…
    4    4                                    broken <U+007F> {
    5
















    1–5 of 5                       / search  s sort  : SQL  ⏎ record  ? help  q quit
    ");
    for _ in 0..5 {
        press(&mut screen, "<enter>");
        assert_harmless(&screen, USUAL);
        press(&mut screen, "<esc><down>");
    }
    let mut screen = opened(HOSTILE, RowContent::Text, USUAL);
    assert_harmless(&screen, USUAL);
    press(&mut screen, "<enter>");
    assert_harmless(&screen, USUAL);
}

#[test]
fn a_tool_and_what_is_typed_do_nothing_either() {
    let about = HeaderInfo {
        reference: "lro:\u{1b}[2J".to_owned(),
        tool: format!("\u{202e}{}", "tool\n".repeat(50)),
        expires: "\u{7}".to_owned(),
        ..HeaderInfo::default()
    };
    let source = Box::new(HOSTILE.as_bytes().to_vec());
    let mut screen = Screen::new(source, 0, RowContent::Records, about, ColorMode::Plain);
    finish(&mut screen);
    press(&mut screen, "/\u{202e}\u{9b}");
    assert_harmless(&screen, USUAL);
    press(&mut screen, "<enter>");
    assert_harmless(&screen, USUAL);
    press(&mut screen, ":\u{2066}\u{1b}a<enter>");
    screen.answered(Err("\u{1b}[2J\nsecond line".to_owned()));
    assert_harmless(&screen, USUAL);
    assert!(text(&screen, USUAL).ends_with("<U+001B>[2J\\nsecond line\n"));
}

#[test]
fn very_long_cells_are_cut_in_the_table_and_whole_in_the_record() {
    let long = format!("{{\"a\":\"{}END\",\"b\":1}}\n", "x".repeat(300_000));
    let mut screen = opened(&long, RowContent::Records, USUAL);
    let table = text(&screen, USUAL);
    assert!(table.contains("xxx…") && !table.contains("END"), "{table}");
    press(&mut screen, "<enter>G");
    assert!(text(&screen, USUAL).contains("END"));
    // The search looks at all of it, too.
    press(&mut screen, "<esc>/xend<enter>");
    assert!(!text(&screen, USUAL).contains("no match for"));
}

#[test]
fn a_record_of_nothing_but_brackets_is_survived() {
    let deep = format!("{}\n", "[".repeat(200_000));
    let mut screen = opened(&deep, RowContent::Records, USUAL);
    press(&mut screen, "<enter>G");
    assert_harmless(&screen, USUAL);
}
