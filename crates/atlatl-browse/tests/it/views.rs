//! Snapshots of the screen at the usual size.

use atlatl_browse::RowContent;

use crate::harness::{USUAL, opened, press, products, text};

#[test]
fn a_table_of_records() {
    let screen = opened(&products(5000), RowContent::Records, USUAL);
    insta::assert_snapshot!(text(&screen, USUAL), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 5000 records · expires in 23 h
       #   id  name        price   stock  tags       note
       1    0  Lamp         0.50       0  ["a","b"]
       2    1  bottle      37.50       1             a longer remark
       3    2  Chair       74.50       2  ["a","b"]  a longer remark a longer remar…
       4    3  desk, oak   11.50    null  ["a","b"]  a longer remark a longer remar…
       5    4  Éclair      48.50       4  ["a","b"]  a longer remark a longer remar…
       6    5  字典        85.50       5             a longer remark a longer remar…
       7    6  Fan         22.50       6  ["a","b"]  a longer remark a longer remar…
       8    7  Lamp        59.50       7  ["a","b"]
       9    8  bottle      96.50    null  ["a","b"]  a longer remark
      10    9  Chair       33.50       0             a longer remark a longer remar…
      11   10  desk, oak   70.50       1  ["a","b"]  a longer remark a longer remar…
      12   11  Éclair       7.50       2  ["a","b"]  a longer remark a longer remar…
      13   12  字典        44.50       3  ["a","b"]  a longer remark a longer remar…
      14   13  Fan         81.50    null             a longer remark a longer remar…
      15   14  Lamp        18.50       5  ["a","b"]
      16   15  bottle      55.50       6  ["a","b"]  a longer remark
      17   16  Chair       92.50       7  ["a","b"]  a longer remark a longer remar…
      18   17  desk, oak   29.50       8             a longer remark a longer remar…
      19   18  Éclair      66.50    null  ["a","b"]  a longer remark a longer remar…
      20   19  字典         3.50       1  ["a","b"]  a longer remark a longer remar…
      21   20  Fan         40.50       2  ["a","b"]  a longer remark a longer remar…
    1–21 of 5,000                  / search  s sort  : SQL  ⏎ record  ? help  q quit
    "#);
}

#[test]
fn a_wide_screen_gives_cut_columns_more_room() {
    let size = (140, 40);
    let screen = opened(&products(9), RowContent::Records, size);
    insta::assert_snapshot!(text(&screen, size), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 9 records · 1.2 MB · expires in 23 h
    #   id  name        price   stock  tags       note
    1    0  Lamp         0.50       0  ["a","b"]
    2    1  bottle      37.50       1             a longer remark
    3    2  Chair       74.50       2  ["a","b"]  a longer remark a longer remark
    4    3  desk, oak   11.50    null  ["a","b"]  a longer remark a longer remark a longer remark
    5    4  Éclair      48.50       4  ["a","b"]  a longer remark a longer remark a longer remark a longer remark
    6    5  字典        85.50       5             a longer remark a longer remark a longer remark a longer remark a longer remark
    7    6  Fan         22.50       6  ["a","b"]  a longer remark a longer remark a longer remark a longer remark a longer remark a longer rema…
    8    7  Lamp        59.50       7  ["a","b"]
    9    8  bottle      96.50    null  ["a","b"]  a longer remark




























    1–9 of 9                                                                                   / search  s sort  : SQL  ⏎ record  ? help  q quit
    "#);
}

#[test]
fn a_record_is_seen_whole() {
    let mut screen = opened(&products(5000), RowContent::Records, USUAL);
    press(&mut screen, "G<enter><left>");
    insta::assert_snapshot!(text(&screen, USUAL), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 5000 records · expires in 23 h
    {
      "id": 4998,
      "name": "Lamp",
      "price": 26.50,
      "stock": null,
      "tags": [
        "a",
        "b"
      ],
      "note": ""
    }











    record 4,999                         ←→ previous, next  Esc back  ? help  q quit
    "#);
}

#[test]
fn a_search_goes_to_the_next_match() {
    let mut screen = opened(&products(5000), RowContent::Records, USUAL);
    press(&mut screen, "/éclair<enter>nn");
    insta::assert_snapshot!(text(&screen, USUAL), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 5000 records · expires in 23 h
       #   id  name        price   stock  tags       note
       1    0  Lamp         0.50       0  ["a","b"]
       2    1  bottle      37.50       1             a longer remark
       3    2  Chair       74.50       2  ["a","b"]  a longer remark a longer remar…
       4    3  desk, oak   11.50    null  ["a","b"]  a longer remark a longer remar…
       5    4  Éclair      48.50       4  ["a","b"]  a longer remark a longer remar…
       6    5  字典        85.50       5             a longer remark a longer remar…
       7    6  Fan         22.50       6  ["a","b"]  a longer remark a longer remar…
       8    7  Lamp        59.50       7  ["a","b"]
       9    8  bottle      96.50    null  ["a","b"]  a longer remark
      10    9  Chair       33.50       0             a longer remark a longer remar…
      11   10  desk, oak   70.50       1  ["a","b"]  a longer remark a longer remar…
      12   11  Éclair       7.50       2  ["a","b"]  a longer remark a longer remar…
      13   12  字典        44.50       3  ["a","b"]  a longer remark a longer remar…
      14   13  Fan         81.50    null             a longer remark a longer remar…
      15   14  Lamp        18.50       5  ["a","b"]
      16   15  bottle      55.50       6  ["a","b"]  a longer remark
      17   16  Chair       92.50       7  ["a","b"]  a longer remark a longer remar…
      18   17  desk, oak   29.50       8             a longer remark a longer remar…
      19   18  Éclair      66.50    null  ["a","b"]  a longer remark a longer remar…
      20   19  字典         3.50       1  ["a","b"]  a longer remark a longer remar…
      21   20  Fan         40.50       2  ["a","b"]  a longer remark a longer remar…
    1–21 of 5,000 · match 3 of 714 /éclair                            ? help  q quit
    "#);
    press(&mut screen, "/no such thing<enter>");
    assert!(text(&screen, USUAL).ends_with("no match for no such thing\n"));
    press(&mut screen, "gN");
    let shown = text(&screen, USUAL);
    assert!(shown.contains("no match for"), "{shown}");
}

#[test]
fn records_are_sorted_up_then_down_then_as_stored() {
    let mut screen = opened(&products(200), RowContent::Records, USUAL);
    press(&mut screen, "lls");
    insta::assert_snapshot!(text(&screen, USUAL), @r#"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 200 records · expires in 23 h
      #   id  name       price↑   stock  tags       note
      1    0  Lamp         0.50       0  ["a","b"]
    101  100  Chair        0.50       1  ["a","b"]  a longer remark a longer remark
     74   73  desk, oak    1.50    null             a longer remark a longer remark…
    174  173  字典         1.50    null             a longer remark a longer remark…
     47   46  Éclair       2.50       1  ["a","b"]  a longer remark a longer remark…
    147  146  Fan          2.50       2  ["a","b"]  a longer remark a longer remark…
     20   19  字典         3.50       1  ["a","b"]  a longer remark a longer remark…
    120  119  Lamp         3.50       2  ["a","b"]
     93   92  bottle       4.50       2  ["a","b"]  a longer remark
    193  192  desk, oak    4.50       3  ["a","b"]  a longer remark a longer remark…
     66   65  Chair        5.50       2             a longer remark a longer remark
    166  165  Éclair       5.50       3             a longer remark a longer remark…
     39   38  desk, oak    6.50    null  ["a","b"]  a longer remark a longer remark…
    139  138  字典         6.50    null  ["a","b"]  a longer remark a longer remark…
     12   11  Éclair       7.50       2  ["a","b"]  a longer remark a longer remark…
    112  111  Fan          7.50       3  ["a","b"]  a longer remark a longer remark…
     85   84  Lamp         8.50       3  ["a","b"]
    185  184  Chair        8.50       4  ["a","b"]  a longer remark a longer remark
     58   57  bottle       9.50       3             a longer remark
    158  157  desk, oak    9.50       4             a longer remark a longer remark…
     31   30  Chair       10.50       3  ["a","b"]  a longer remark a longer remark
    1–21 of 200 · sort price ↑     / search  s sort  : SQL  ⏎ record  ? help  q quit
    "#);
    press(&mut screen, "s");
    let shown = text(&screen, USUAL);
    let heading = shown.lines().nth(1).unwrap();
    assert!(heading.contains("price\u{2193}"), "{shown}");
    assert!(shown.lines().nth(2).unwrap().contains("99.50"), "{shown}");
    press(&mut screen, "s");
    assert!(text(&screen, USUAL).lines().nth(2).unwrap().trim_start().starts_with("1  "));
}

#[test]
fn what_is_missing_comes_last_whichever_way_it_is_sorted() {
    let mut screen = opened(&products(200), RowContent::Records, USUAL);
    for keys in ["llls", "s"] {
        press(&mut screen, keys);
        press(&mut screen, "G");
        let shown = text(&screen, USUAL);
        let last = shown.lines().nth(22).unwrap();
        assert!(last.contains("null"), "{shown}");
        press(&mut screen, "g");
        assert!(!text(&screen, USUAL).lines().nth(2).unwrap().contains("null"));
    }
}

#[test]
fn a_text_is_a_pager_without_columns() {
    let lines = (1..=100).map(|n| format!("line {n} of a log\tand more\n")).collect::<Vec<_>>();
    let lines = lines.concat();
    let mut screen = opened(&lines, RowContent::Text, (60, 10));
    press(&mut screen, "/line 42<enter>");
    insta::assert_snapshot!(text(&screen, (60, 10)), @"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products
     35  line 35 of a log    and more
     36  line 36 of a log    and more
     37  line 37 of a log    and more
     38  line 38 of a log    and more
     39  line 39 of a log    and more
     40  line 40 of a log    and more
     41  line 41 of a log    and more
     42  line 42 of a log    and more
    35–42 of 100 · match 1 of 1 /line 42          ? help  q quit
    ");
    for (key, said) in [("s", "sorting needs records"), (":", "SQL needs records")] {
        press(&mut screen, key);
        assert!(text(&screen, (60, 10)).contains(said));
    }
    press(&mut screen, "l");
    assert!(text(&screen, (60, 10)).contains("of a log    and more"));
}

#[test]
fn an_empty_result_says_so() {
    let mut screen = opened("", RowContent::Records, (50, 6));
    press(&mut screen, "jG<enter>sn/x<enter>");
    press(&mut screen, "j");
    insta::assert_snapshot!(text(&screen, (50, 6)), @"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products
    #
       the result is empty


    0 of 0 · /x                         ? help  q quit
    ");
}

#[test]
fn the_keys_are_explained() {
    let mut screen = opened(&products(50), RowContent::Records, USUAL);
    press(&mut screen, "?");
    insta::assert_snapshot!(text(&screen, USUAL), @"
    lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D · list_products · 50 records · expires in 23 h
     #   id╭───────────────────────────────────────────────────────────────╮
     1    0│ ↑ ↓  j k            a record up, down                         │
     2    1│ PgUp PgDn  space b  a page up, down                           │
     3    2│ g G                 the first, the last                       │remark
     4    3│ ← →  h l            the column to the left, right             │remark …
     5    4│ Enter               the whole record; again or Esc: back      │remark …
     6    5│ ← →  p n            there: the previous, next record          │remark …
     7    6│ /                   search: text or regular expression        │remark …
     8    7│ n N                 the next, previous match                  │
     9    8│ s                   sort by this column: up, down, as stored  │
    10    9│ v                   the values of this column, and how often  │remark
    11   10│ - +                 hide this column; show all columns        │remark …
    12   11│ < >                 narrower, wider                           │remark …
    13   12│ y Y                 copy the cell, the record                 │remark …
    14   13│ e                   write the shown records to a file         │remark …
    15   14│ :                   SQL: a condition, such as price > 10,     │
    16   15│                     or a statement: select … from results     │
    17   16│ ↑                   while typing: earlier input               │remark
    18   17│ Esc                 back to all records; cancels a long query │remark …
    19   18│ ?                   this                                      │remark …
    20   19│ q  Ctrl-C           quit                                      │remark …
    21   20╰───────────────────────────────────────────────────────────────╯remark …
    1–21 of 50                     / search  s sort  : SQL  ⏎ record  ? help  q quit
    ");
    press(&mut screen, "<esc>");
    assert!(!text(&screen, USUAL).contains("Ctrl-C"));
}

#[test]
fn a_tiny_terminal_is_survived() {
    let mut screen = opened(&products(50), RowContent::Records, (20, 5));
    press(&mut screen, "jjl");
    insta::assert_snapshot!(text(&screen, (20, 5)), @"
    lro:01KA2Z3T4V5W6X7…
     #   id  name      ›
     2    1  bottle
     3    2  Chair
    2–3 of 50
    ");
    for size in [(1, 1), (2, 2), (3, 3), (0, 0), (200, 3)] {
        screen.resize(size.0, size.1);
        for keys in ["?", "<esc>", "<enter>", "<down>", "<esc>", "/abc", "<esc>", "G", "lllll"] {
            press(&mut screen, keys);
            text(&screen, size);
        }
    }
}

#[test]
fn columns_beyond_the_edge_are_reached() {
    let fields: Vec<String> = (0..40).map(|n| format!("\"column_{n}\":{n}")).collect();
    let mut screen = opened(&format!("{{{}}}\n", fields.join(",")), RowContent::Records, USUAL);
    press(&mut screen, &"l".repeat(45));
    let shown = text(&screen, USUAL);
    let heading = shown.lines().nth(1).unwrap();
    assert!(heading.contains("column_39") && !heading.contains("column_1 "), "{shown}");
    press(&mut screen, &"h".repeat(45));
    assert!(text(&screen, USUAL).lines().nth(1).unwrap().contains("column_0"));
}
