//! The list of results.

use atlatl_browse::{ColorMode, KeyPress, List, ListColumn, ListCommand, draw_list};
use ratatui::{Terminal, backend::TestBackend};

const COLUMNS: [ListColumn; 6] = [
    ListColumn { title: "STORED", is_right: true, rank: 3 },
    ListColumn { title: "SERVER", is_right: false, rank: 1 },
    ListColumn { title: "TOOL", is_right: false, rank: 5 },
    ListColumn { title: "RECORDS", is_right: true, rank: 4 },
    ListColumn { title: "SIZE", is_right: true, rank: 0 },
    ListColumn { title: "ARGUMENTS", is_right: false, rank: 2 },
];

fn rows(count: usize) -> Vec<Vec<String>> {
    let row = |n: usize| {
        [
            &format!("{} min ago", n + 1),
            ["github", "postgres", "files"][n % 3],
            ["list_issues", "query", "read_a_file_with_a_rather_long_name"][n % 3],
            &(n * 100).to_string(),
            &format!("{} KB", n * 7),
            [
                "owner=octo-org, repo=hello-world, state=all, per_page=100, page=1, sort=updated",
                "",
                "x",
            ][n % 3],
        ]
        .map(str::to_owned)
        .to_vec()
    };
    (0..count).map(row).collect()
}

/// Rows that are identified by their server and size.
fn with_keys(rows: Vec<Vec<String>>) -> Vec<(String, Vec<String>)> {
    rows.into_iter().map(|row| (format!("{} {}", row[1], row[4]), row)).collect()
}

fn list(count: usize, (width, height): (u16, u16)) -> List {
    let mut list =
        List::new("atlatl · results for ~/p", &COLUMNS, "Nothing.\nYet.", ColorMode::Plain);
    list.set_above(&["Saved   12,000 tokens".to_owned(), "Doctor  no problems".to_owned()]);
    list.set_rows(with_keys(rows(count)));
    list.resize(width, height);
    list
}

fn text(list: &List, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw_list(list, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[test]
fn columns_are_left_out_where_there_is_no_room() {
    let shown = |width| {
        let size = (width, 11);
        text(&list(3, size), size)
    };
    insta::assert_snapshot!(shown(60), @"
    atlatl · results for ~/p
    Saved   12,000 tokens
    Doctor  no problems

       STORED  TOOL                      RECORDS  ARGUMENTS
    1 min ago  list_issues                     0  owner=octo-or…
    2 min ago  query                         100
    3 min ago  read_a_file_with_a_rath…      200  x


    1 of 3            ⏎ open  / search  r reload  ? help  q quit
    ");
    insta::assert_snapshot!(shown(80), @"
    atlatl · results for ~/p
    Saved   12,000 tokens
    Doctor  no problems

       STORED  SERVER    TOOL                      RECORDS   SIZE  ARGUMENTS
    1 min ago  github    list_issues                     0   0 KB  owner=octo-org, …
    2 min ago  postgres  query                         100   7 KB
    3 min ago  files     read_a_file_with_a_rath…      200  14 KB  x


    1 of 3                                ⏎ open  / search  r reload  ? help  q quit
    ");
    insta::assert_snapshot!(shown(120), @"
    atlatl · results for ~/p
    Saved   12,000 tokens
    Doctor  no problems

       STORED  SERVER    TOOL                      RECORDS   SIZE  ARGUMENTS
    1 min ago  github    list_issues                     0   0 KB  owner=octo-org, repo=hello-world, state=all, per_page=10…
    2 min ago  postgres  query                         100   7 KB
    3 min ago  files     read_a_file_with_a_rath…      200  14 KB  x


    1 of 3                                                                        ⏎ open  / search  r reload  ? help  q quit
    ");
    insta::assert_snapshot!(shown(200), @"
    atlatl · results for ~/p
    Saved   12,000 tokens
    Doctor  no problems

       STORED  SERVER    TOOL                      RECORDS   SIZE  ARGUMENTS
    1 min ago  github    list_issues                     0   0 KB  owner=octo-org, repo=hello-world, state=all, per_page=100, page=1, sort=updated
    2 min ago  postgres  query                         100   7 KB
    3 min ago  files     read_a_file_with_a_rath…      200  14 KB  x


    1 of 3                                                                                                                                                        ⏎ open  / search  r reload  ? help  q quit
    ");
}

#[test]
fn an_empty_list_says_what_to_do() {
    let size = (60, 9);
    insta::assert_snapshot!(text(&list(0, size), size), @"
    atlatl · results for ~/p
    Saved   12,000 tokens

    STORED  SERVER  TOOL  RECORDS  SIZE  ARGUMENTS
    Nothing.
    Yet.


    0 of 0            ⏎ open  / search  r reload  ? help  q quit
    ");
    assert_eq!(list(0, size).update(KeyPress::Enter), None);
}

#[test]
fn half_of_a_low_screen_is_for_the_rows() {
    let size = (60, 6);
    insta::assert_snapshot!(text(&list(3, size), size), @"
    atlatl · results for ~/p
       STORED  TOOL                      RECORDS  ARGUMENTS
    1 min ago  list_issues                     0  owner=octo-or…
    2 min ago  query                         100
    3 min ago  read_a_file_with_a_rath…      200  x
    1 of 3            ⏎ open  / search  r reload  ? help  q quit
    ");
    for height in 1..=24 {
        let size = (60, height);
        let shown = text(&list(40, size), size);
        let rows = shown.lines().filter(|line| line.contains(" min ago")).count();
        let least = if height < 6 { 1 } else { usize::from(height / 2) };
        assert!(rows >= least, "{rows} rows in {height} lines:\n{shown}");
    }
}

#[test]
fn a_terminal_that_shrank_before_it_is_drawn_on_is_survived() {
    let mut list = list(40, (80, 24));
    for height in [1, 2, 3, 6] {
        for width in [1, 60] {
            text(&list, (width, height));
            list.update(KeyPress::Char('?'));
            text(&list, (width, height));
            list.update(KeyPress::Esc);
        }
    }
    list.resize(1, 1);
    list.update(KeyPress::End);
    text(&list, (1, 1));
}

#[test]
fn a_search_leaves_the_rows_that_contain_every_word() {
    let size = (80, 12);
    let mut list = list(9, size);
    for key in "/github ago".chars() {
        assert_eq!(list.update(KeyPress::Char(key)), None);
    }
    list.update(KeyPress::Enter);
    assert!(text(&list, size).contains("1 of 3 · /github ago"), "{}", text(&list, size));
    assert_eq!(list.update(KeyPress::Enter), Some(ListCommand::Open(0)));
    list.update(KeyPress::Char('j'));
    assert_eq!(list.update(KeyPress::Enter), Some(ListCommand::Open(3)));
    list.update(KeyPress::Esc);
    assert!(text(&list, size).contains("1 of 9"));
    for key in "/nothing like it".chars() {
        list.update(KeyPress::Char(key));
    }
    assert!(text(&list, size).contains("none of them contains this"));
}

#[test]
fn the_cursor_stays_on_its_row_when_others_come() {
    let size = (80, 12);
    let mut list = list(9, size);
    list.update(KeyPress::End);
    let mut more = vec![rows(1).remove(0)];
    more[0][1] = "new".to_owned();
    more.extend(rows(9));
    for row in &mut more {
        row[0] = "later".to_owned();
    }
    list.set_rows(with_keys(more));
    assert_eq!(list.update(KeyPress::Enter), Some(ListCommand::Open(9)));
    assert_eq!(list.update(KeyPress::Char('r')), Some(ListCommand::Reload));
    list.resize(80, 24);
    list.update(KeyPress::Char('?'));
    assert!(text(&list, (80, 24)).contains("look for new results"));
    assert_eq!(list.update(KeyPress::Char('q')), Some(ListCommand::Quit));
}

#[test]
fn hostile_texts_do_nothing_and_any_size_is_survived() {
    let mut list = list(0, (80, 24));
    let hostile = "\u{1b}[2J\u{202e}evil\n".repeat(9);
    list.set_above(std::slice::from_ref(&hostile));
    list.set_rows(with_keys(vec![vec![hostile.clone(); 6]; 40]));
    list.show_message(&hostile);
    for width in [0, 1, 2, 5, 30, 81] {
        for height in [0, 1, 2, 3, 4, 5, 6, 24] {
            list.resize(width, height);
            for key in [KeyPress::End, KeyPress::Char('?'), KeyPress::Char('?'), KeyPress::Up] {
                list.update(key);
                let shown = text(&list, (width, height));
                assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
            }
        }
    }
}
