//! Columns, their values and copies.

use atlatl_browse::{RowContent, RowKind, Screen, ScreenCommand, SqlRequest, SqlRows};

use crate::harness::{USUAL, opened, press, products, text};

const SMALL: (u16, u16) = (60, 8);

fn heading(screen: &Screen) -> String {
    text(screen, USUAL).lines().nth(1).unwrap().trim().to_owned()
}

fn footer(screen: &Screen) -> String {
    text(screen, USUAL).lines().last().unwrap().to_owned()
}

#[test]
fn columns_are_hidden_and_shown_again() {
    let mut screen = opened(&products(20), RowContent::Records, USUAL);
    press(&mut screen, "l-l-");
    assert_eq!(heading(&screen), "#   id   price  tags       note");
    assert!(footer(&screen).contains("2 columns hidden"), "{}", footer(&screen));
    press(&mut screen, "lll---");
    press(&mut screen, "hhhh-");
    assert_eq!(footer(&screen), "the last column cannot be hidden");
    press(&mut screen, "+");
    assert_eq!(heading(&screen), "#   id  name        price   stock  tags       note");
}

#[test]
fn columns_get_the_width_that_is_chosen() {
    let mut screen = opened(&products(20), RowContent::Records, USUAL);
    press(&mut screen, "l<lt><lt><lt><lt>");
    assert_eq!(heading(&screen), "#   id  na…   price   stock  tags       note");
    press(&mut screen, ">>>>>");
    assert_eq!(
        heading(&screen),
        "#   id  name                      price   stock  tags       note"
    );
    press(&mut screen, "+");
    assert_eq!(heading(&screen), "#   id  name        price   stock  tags       note");
}

#[test]
fn text_has_no_columns() {
    let mut screen = opened("one\ntwo\n", RowContent::Text, USUAL);
    for key in ["-", "+", "<lt>", ">", "v"] {
        press(&mut screen, key);
        assert_eq!(footer(&screen), "this result has no columns", "{key}");
    }
}

#[test]
fn values_of_a_column_are_counted_and_filter() {
    let mut screen = opened(&products(200), RowContent::Records, SMALL);
    press(&mut screen, "lvj");
    insta::assert_snapshot!(text(&screen, SMALL), @"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products
    name: 7 values
    29   14 %  ████████████████████████  Chair
    29   14 %  ████████████████████████  Lamp
    29   14 %  ████████████████████████  bottle
    29   14 %  ████████████████████████  desk, oak
    28   14 %  ███████████████████████   Fan
    value 2 of 7     ⏎ only this value  Esc back  ? help  q quit
    ");
    let asked = press(&mut screen, "<enter>");
    let statement = "SELECT _n FROM results WHERE (\"name\" = 'Lamp'\n)".to_owned();
    assert_eq!(asked, Some(ScreenCommand::Ask(SqlRequest { statement, rows: RowKind::Numbers })));
    screen.answered(Ok(SqlRows { lines: b"{\"_n\":2}\n{\"_n\":9}\n".to_vec(), more: None }));
    assert!(text(&screen, SMALL).contains("1–2 of 2 · :\"name\" = 'Lamp'"));
    // A second value narrows the records that are shown.
    let asked = press(&mut screen, "lllv<enter>");
    let Some(ScreenCommand::Ask(request)) = asked else { panic!("{asked:?}") };
    assert_eq!(
        request.statement,
        "SELECT _n FROM results WHERE ((\"name\" = 'Lamp'\n) and \"stock\" = 1\n)"
    );
}

#[test]
fn what_cannot_be_filtered_by_says_so() {
    let mut screen = opened(&products(20), RowContent::Records, USUAL);
    assert_eq!(press(&mut screen, "llllv<enter>"), None);
    assert!(footer(&screen).contains("cannot be filtered by"), "{}", footer(&screen));
    press(&mut screen, "<esc>:select 1 as n<enter>");
    screen.answered(Ok(SqlRows { lines: b"{\"n\":1}\n".to_vec(), more: None }));
    assert_eq!(press(&mut screen, "v<enter>"), None);
    assert!(footer(&screen).contains("press Esc twice"), "{}", footer(&screen));
}

#[test]
fn matches_are_numbered() {
    let mut screen = opened(&products(5000), RowContent::Records, USUAL);
    press(&mut screen, "/lamp<enter>nn");
    assert!(footer(&screen).contains("match 3 of 715 /lamp"), "{}", footer(&screen));
    press(&mut screen, "j");
    assert!(footer(&screen).contains("715 matches /lamp"), "{}", footer(&screen));
    press(&mut screen, "ss");
    assert!(footer(&screen).contains("715 matches /lamp"), "{}", footer(&screen));
    press(&mut screen, "n");
    assert!(footer(&screen).contains("match 1 of 715 /lamp"), "{}", footer(&screen));
    press(&mut screen, "<esc>");
    assert!(!footer(&screen).contains("lamp"), "{}", footer(&screen));
}

#[test]
fn a_cell_is_copied_as_text_and_a_record_as_it_is_stored() {
    let line = "{\"a\":\"one\\n\\u00e9\",\"b\":1.50,\"c\":\"x\\u001b[201~y\",\"d\":\"\"}";
    let mut screen = opened(line, RowContent::Records, USUAL);
    let mut copied = |keys: &str| match press(&mut screen, keys) {
        Some(ScreenCommand::Copy(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(copied("y"), "one\né");
    assert_eq!(copied("ly"), "1.50");
    // What could steer the terminal stays escaped.
    assert_eq!(copied("ly"), "\"x\\u001b[201~y\"");
    assert_eq!(copied("Y"), line);
    assert_eq!(copied("<enter>y"), line);
    press(&mut screen, "<esc>");
    assert_eq!(press(&mut screen, "ly"), None);
    assert_eq!(footer(&screen), "no value to copy");
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(80_000));
    let mut screen = opened(&long, RowContent::Records, USUAL);
    assert_eq!(press(&mut screen, "y"), None);
    assert!(footer(&screen).contains("at most 74,000 bytes"), "{}", footer(&screen));
}
