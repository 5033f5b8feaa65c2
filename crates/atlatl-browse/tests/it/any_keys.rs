//! Random keys on random records.

use atlatl_browse::{ColorMode, KeyPress, RowContent, Screen, ScreenCommand, SqlRows};
use proptest::prelude::*;

use crate::exports::MemoryFile;
use crate::harness::{about, drawn};

/// Something that is done to a screen.
#[derive(Debug, Clone)]
enum Step {
    Press(KeyPress),
    Work,
    Resize(u16, u16),
    SqlRows(Result<Vec<u8>, String>),
}

fn key() -> impl Strategy<Value = KeyPress> {
    prop_oneof![
        3 => proptest::sample::select("jkhl gGbnNsvveyY-->+/:?qp.a1<\u{301}字".chars().collect::<Vec<_>>())
            .prop_map(KeyPress::Char),
        1 => proptest::sample::select(vec!['a', 'b', 'e', 'f', 'u', 'w']).prop_map(KeyPress::Ctrl),
        3 => proptest::sample::select(vec![
            KeyPress::Up,
            KeyPress::Down,
            KeyPress::Left,
            KeyPress::Right,
            KeyPress::PageUp,
            KeyPress::PageDown,
            KeyPress::Home,
            KeyPress::End,
            KeyPress::Enter,
            KeyPress::Esc,
            KeyPress::Backspace,
            KeyPress::Delete,
        ]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let lines = "(\\{\"_n\":[0-9]{1,2}\\}\n|\\{\"b\":\"x\"\\}\n){0,4}";
    prop_oneof![
        10 => key().prop_map(Step::Press),
        3 => Just(Step::Work),
        1 => (0_u16..30, 0_u16..12).prop_map(|(width, height)| Step::Resize(width, height)),
        1 => lines.prop_map(|lines| Step::SqlRows(Ok(lines.into_bytes()))),
        1 => Just(Step::SqlRows(Err("no such column".to_owned()))),
    ]
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\{\"a\":[0-9]{1,3},\"b\":\"[a字🦀\\\\n\u{202e}]{0,12}\"\\}",
        "\\{\"b\":null,\"c\":\\[1,\\{\\}\\]\\}",
        "[0-9]{0,4}",
        "[\\[{\"\\\\a:, \\]}\u{1b}]{0,12}",
    ]
}

proptest! {
    #[test]
    fn nothing_panics_and_the_cursor_stays_in_range(
        lines in proptest::collection::vec(line(), 0..12),
        records in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let content = if records { RowContent::Records } else { RowContent::Text };
        let source = Box::new(lines.join("\n").into_bytes());
        let mut screen = Screen::new(source, 0, content, about("some"), ColorMode::Colour);
        let mut size = (80, 24);
        for step in steps {
            match step {
                Step::Press(key) => {
                    let effect = screen.update(key);
                    let asks = matches!(effect, Some(ScreenCommand::Ask(_)));
                    prop_assert!(!asks || screen.is_asking());
                    if let Some(ScreenCommand::Export(path)) = effect {
                        screen.begin_export(Box::new(MemoryFile::default()), &path);
                    }
                }
                Step::Work => {
                    screen.work();
                }
                Step::Resize(width, height) => {
                    size = (width, height);
                    screen.resize(width, height);
                }
                Step::SqlRows(answer) => {
                    screen.answered(answer.map(|lines| SqlRows { lines, more: None }));
                }
            }
            drawn(&screen, size);
            let (cursor, count) = screen.position();
            prop_assert!(cursor < count.max(1));
        }
        // However it was left, the work comes to an end.
        let mut pieces = 0;
        while screen.work() {
            pieces += 1;
            prop_assert!(pieces < 1000);
        }
    }
}
