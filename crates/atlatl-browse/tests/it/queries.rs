//! SQL filters: the request, and the effect of its result.

use atlatl_browse::{RowContent, RowKind, ScreenCommand, SqlRequest, SqlRows};

use crate::harness::{USUAL, opened, press, products, text};

#[test]
fn a_condition_leaves_the_records_it_holds_for() {
    let mut screen = opened(&products(200), RowContent::Records, USUAL);
    let effect = press(&mut screen, ":price > 10 and name like 'a%'<enter>");
    let statement = "SELECT _n FROM results WHERE (price > 10 and name like 'a%'\n)".to_owned();
    assert_eq!(effect, Some(ScreenCommand::Ask(SqlRequest { statement, rows: RowKind::Numbers })));
    assert!(screen.is_asking() && text(&screen, USUAL).contains("running"));
    let lines = b"{\"_n\":3}\n{\"_n\":199}\n{\"_n\":9999}\n".to_vec();
    screen.answered(Ok(SqlRows { lines, more: None }));
    insta::assert_snapshot!(text(&screen, USUAL), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 200 records · expires in 23 h
      #   id  name        price   stock  tags       note
      3    2  Chair       74.50       2  ["a","b"]  a longer remark a longer remark
    199  198  Chair       26.50    null  ["a","b"]  a longer remark a longer remark



















    1–2 of 2 · :price > 10 and name like 'a%'                         ? help  q quit
    "#);
    press(&mut screen, "<enter><right>");
    assert!(text(&screen, USUAL).contains("record 199"));
    press(&mut screen, "<esc><esc>");
    assert!(text(&screen, USUAL).contains("1–21 of 200"));
}

#[test]
fn a_statement_shows_its_own_columns() {
    let mut screen = opened(&products(200), RowContent::Records, (60, 8));
    let effect = press(&mut screen, ":select name, count(*) as n from results group by 1<enter>");
    assert!(matches!(effect, Some(ScreenCommand::Ask(SqlRequest { rows: RowKind::Any, .. }))));
    let lines = b"{\"name\":\"Fan\",\"n\":28}\n{\"name\":\"Lamp\",\"n\":29}\n".to_vec();
    screen.answered(Ok(SqlRows { lines, more: Some("1,000".to_owned()) }));
    press(&mut screen, "lss");
    insta::assert_snapshot!(text(&screen, (60, 8)), @"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products
    #  name   n↓
    2  Lamp   29
    1  Fan    28



    1–2 of 2 · 1,000 in total · sort n ↓ · :select name, count(…
    ");
}

#[test]
fn an_error_is_in_the_last_line_and_what_was_seen_stays() {
    let mut screen = opened(&products(200), RowContent::Records, USUAL);
    press(&mut screen, "jj:prize > 10<enter>");
    let why =
        "the query cannot be run: no such column: prize\u{1b}[2J. Nearest columns: \"price\".";
    screen.answered(Err(why.to_owned()));
    insta::assert_snapshot!(text(&screen, USUAL), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 200 records · expires in 23 h
      #   id  name        price   stock  tags       note
      1    0  Lamp         0.50       0  ["a","b"]
      2    1  bottle      37.50       1             a longer remark
      3    2  Chair       74.50       2  ["a","b"]  a longer remark a longer remark
      4    3  desk, oak   11.50    null  ["a","b"]  a longer remark a longer remark…
      5    4  Éclair      48.50       4  ["a","b"]  a longer remark a longer remark…
      6    5  字典        85.50       5             a longer remark a longer remark…
      7    6  Fan         22.50       6  ["a","b"]  a longer remark a longer remark…
      8    7  Lamp        59.50       7  ["a","b"]
      9    8  bottle      96.50    null  ["a","b"]  a longer remark
     10    9  Chair       33.50       0             a longer remark a longer remark
     11   10  desk, oak   70.50       1  ["a","b"]  a longer remark a longer remark…
     12   11  Éclair       7.50       2  ["a","b"]  a longer remark a longer remark…
     13   12  字典        44.50       3  ["a","b"]  a longer remark a longer remark…
     14   13  Fan         81.50    null             a longer remark a longer remark…
     15   14  Lamp        18.50       5  ["a","b"]
     16   15  bottle      55.50       6  ["a","b"]  a longer remark
     17   16  Chair       92.50       7  ["a","b"]  a longer remark a longer remark
     18   17  desk, oak   29.50       8             a longer remark a longer remark…
     19   18  Éclair      66.50    null  ["a","b"]  a longer remark a longer remark…
     20   19  字典         3.50       1  ["a","b"]  a longer remark a longer remark…
    the query cannot be run: no such column: prize<U+001B>[2J. Nearest columns:
    "price".
    "#);
    press(&mut screen, ":<up>");
    assert!(text(&screen, USUAL).ends_with(":prize > 10\n"));
}

#[test]
fn an_answer_that_is_not_awaited_is_ignored() {
    let mut screen = opened(&products(20), RowContent::Records, USUAL);
    press(&mut screen, ":id = 1<enter>");
    assert_eq!(press(&mut screen, "<esc>"), Some(ScreenCommand::Cancel));
    let before = text(&screen, USUAL);
    screen.answered(Ok(SqlRows::default()));
    assert_eq!(text(&screen, USUAL), before);
    assert_eq!(press(&mut screen, ":<enter>"), None);
    assert_eq!(press(&mut screen, "<^c>"), Some(ScreenCommand::Quit));
}

#[test]
fn a_filter_that_nothing_passes_says_so() {
    let mut screen = opened(&products(20), RowContent::Records, (60, 6));
    press(&mut screen, ":id = 100<enter>");
    screen.answered(Ok(SqlRows::default()));
    press(&mut screen, "jGs<enter>");
    insta::assert_snapshot!(text(&screen, (60, 6)), @"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products
     #  id↑  name        price   stock  tags       note
        no records match


    0 of 0 · sort id ↑ · :id = 100                ? help  q quit
    ");
}
