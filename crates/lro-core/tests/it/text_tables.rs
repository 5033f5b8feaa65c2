//! Detection of tables and logs in text besides CSV and TSV.

use lro_core::record_lines;
use lro_core::records::{Content, Detected, Detector, RecordForm, RecordLines};
use proptest::prelude::*;
use testkit::text_tables::{rows, samples};

/// The layout and the record lines of a text.
fn read(text: &str) -> (&'static str, Vec<String>) {
    let detected = Detected::detect(text.as_bytes());
    let Some(records) = detected.records() else { return ("text", Vec::new()) };
    let layout = match &records.form {
        RecordForm::TextTable { layout, .. } => layout.as_str(),
        form => form.text_form().unwrap_or("json"),
    };
    let (lines, stats) = record_lines(text.as_bytes(), &detected, usize::MAX).unwrap();
    assert_eq!(stats.count, records.count);
    (layout, lines.lines().map(str::to_owned).collect())
}

/// The texts before and after the table.
fn around(text: &str) -> (String, String) {
    let range = Detected::detect(text.as_bytes()).main_range.expect("text around the table");
    let at = |offset| usize::try_from(offset).unwrap();
    (text[..at(range.start)].to_owned(), text[at(range.end)..].to_owned())
}

#[test]
fn g14_tables_and_logs_in_text_are_records() {
    for (layout, text, first) in samples() {
        let (detected, lines) = read(&text);
        assert_eq!(detected, layout, "{text}");
        assert_eq!(lines[0], first, "{text}");
        assert_eq!(lines.len(), if text.contains("VSZ") { 30 } else { 12 });
        assert_eq!(Detected::detect(text.as_bytes()).main_range, None, "{text}");
    }
}

#[test]
fn g14_short_text_around_a_table_is_no_part_of_it() {
    for (layout, text, first) in samples() {
        let before = "Here are the rows, as requested:\n\n";
        let after = "\n(12 rows)\n";
        let text = format!("{before}{text}{after}");
        let (detected, lines) = read(&text);
        assert_eq!((detected, &*lines[0]), (layout, first), "{text}");
        let (start, end) = around(&text);
        assert_eq!((&*start, end.trim()), (before, "(12 rows)"), "{text}");
    }
    let (_, pods, _) = &samples()[6];
    let fenced = format!("```\n{pods}```\n");
    assert_eq!(around(&fenced), ("```\n".to_owned(), "```\n".to_owned()));
    let cut = pods.trim_end_matches("5d\n").trim_end().to_owned() + "\nweb";
    assert_eq!(read(&cut).1.len(), 12);
}

#[test]
fn g14_the_header_decides_about_the_delimiter() {
    let text = "name;net, EUR;gross\n".to_owned() + &rows(12, |n| format!("x;{n},5;{n}"));
    assert_eq!(read(&text).1[0], r#"{"name":"x","net, EUR":"0,5","gross":0}"#);
    // CSV as before.
    let text = "name,a;b\n".to_owned() + &rows(12, |n| format!("x,{n};5"));
    assert_eq!(
        read(&text),
        (
            "csv",
            rows(12, |n| format!(r#"{{"name":"x","a;b":"{n};5"}}"#))
                .lines()
                .map(str::to_owned)
                .collect()
        )
    );
}

#[test]
fn g14_nine_rows_are_text() {
    for (_, text, _) in samples() {
        let keep = text.lines().count() - if text.contains("VSZ") { 21 } else { 3 };
        let short: Vec<&str> = text.split_inclusive('\n').take(keep).collect();
        let short = short.concat();
        let short = short.replace("+----+------+\n|  8", "|  8");
        let records = read(&short).1.len();
        let border = text.starts_with('+');
        assert!(records == 0 || (border && records == 10), "{records} {short}");
    }
}

/// Texts that resemble a table and are none.
fn others() -> Vec<String> {
    let twelve = |line: &str| format!("{line}\n").repeat(12);
    vec![
        // Code and configuration with equals signs.
        rows(12, |n| format!("key{n}=value{n}")),
        rows(12, |n| format!("let x{n} = a{n}; let y = b;")),
        rows(12, |n| format!("x={n}, y={n}{}", ", z=1".repeat(n % 2))),
        rows(12, |n| format!("call(a={n} b=2)")),
        rows(12, |n| format!("export A={n} B={n}")),
        rows(12, |n| format!("CC{n} := gcc -O{n} a=b c=d")),
        rows(12, |n| format!("<a href=\"{n}\" id=\"x\">")),
        rows(12, |n| format!("a{n}=1 b{n}=2 c{n}=3")),
        rows(12, |n| format!("msg=\"open quote {n} b=2")),
        rows(12, |n| format!("level=info and more={n}")),
        // Prose, navigation and shell with pipes.
        rows(12, |n| format!("cat file{n} | grep x | wc -l")),
        twelve("Home | About | Contact"),
        twelve("a|b|c"),
        rows(12, |n| format!("either a|b or{}", "|c".repeat(n % 3))),
        rows(12, |n| format!("| item {n}")),
        "| a | b |\n".to_owned() + &rows(12, |n| format!("| {n} | x |")),
        "| a | b |\n|---|---|---|\n".to_owned() + &rows(12, |n| format!("| {n} | x |")),
        "| a | a |\n|---|---|\n".to_owned() + &rows(12, |n| format!("| {n} | x |")),
        "| a | b |\n|---|---|\n".to_owned()
            + &rows(12, |n| format!("| {n} |{}", " x |".repeat(1 + n % 2))),
        " a | b\n---+---\n".to_owned() + &rows(12, |n| format!(" {n} +| x")),
        // Semicolons in code.
        rows(12, |n| format!("int a{n}; int b{n};")),
        rows(12, |n| format!("mov eax{n} ; comment {n}")),
        rows(12, |n| format!("a{n} {{ color: red; margin: {n} }}")),
        "for (i = 0; i < n; i++) {\n".to_owned() + &rows(12, |n| format!("  a; b; c{n}")),
        twelve("one;two;three"),
        "a;b;c\n".to_owned() + &rows(12, |n| format!("{n};2{}", ";3".repeat(n % 2))),
        // A stack trace.
        "Exception in thread \"main\" java.lang.IllegalStateException: a=1 b=2\n".to_owned()
            + &rows(12, |n| format!("    at com.example.Class{n}.run(Class{n}.java:{n})")),
        // A Makefile.
        "CC      = gcc\nCFLAGS  = -O2\n".to_owned()
            + &rows(12, |n| format!("t{n}:  a.o\n\tgcc -o t{n}  a.o")),
        rows(12, |n| format!("NAME{n:<4}  = value {n}")),
        // YAML.
        "items:\n".to_owned() + &rows(12, |n| format!("  - name: x{n}\n    size:  {n}")),
        rows(12, |n| format!("key{n}:  value {n}")),
        // Listings without a header.
        "total 48\n".to_owned()
            + &rows(12, |n| format!("drwxr-xr-x  2 root root 4096 Nov {n:>2} 10:00 bin{n}")),
        rows(12, |n| format!("-rw-r--r-- 1 root root {n:>6} Nov 17 10:00 file {n}")),
        rows(12, |n| format!("add{n:<8}  Add file contents to the index")),
        // Help of a program.
        "Usage:  tool [OPTIONS]\n\nOptions:\n".to_owned()
            + &rows(12, |n| format!("  -{n}, --long{n}    Do something {n} times")),
        // Columns that disagree with the header.
        "NAME   READY   STATUS\n".to_owned()
            + &rows(12, |n| format!("a-long-name-{n}   1/1   Running")),
        "NAME   READY   STATUS\n".to_owned() + &rows(12, |n| format!("  web{n}  1/1  Running")),
        "NAME   READY\n".to_owned() + &rows(12, |n| format!("w{n:<4}")),
        "Proto Recv-Q Send-Q Local Address           Foreign Address         State\n".to_owned()
            + &rows(12, |n| {
                format!("tcp        0      0 0.0.0.0:{n:<15} 0.0.0.0:*               LISTEN")
            }),
        // Repeated statements.
        rows(12, |n| format!("INSERT INTO FOO VALUES ({n});")),
        twelve("ERROR IN TASK ONE"),
        // Code with objects.
        rows(12, |n| format!("x{n} = {{\"a\": {n}}}")),
        rows(12, |n| format!("push({{\"a\": {n}}})")),
        rows(12, |n| format!("  \"k{n}\": {{\"a\": {n}}},")),
        rows(12, |n| format!("note {{\"a\": {n}")),
        rows(12, |n| format!("fn f{n}() {{}}")),
        rows(12, |n| format!("2026 INFO {{\"_prefix\": {n}}}")),
        rows(12, |n| format!("words before {{\"a\": {}}}", if n % 2 == 0 { "1" } else { "one" })),
        // Prose.
        testkit::text::english(),
        testkit::text::source_code(),
    ]
}

#[test]
fn g14_text_that_resembles_a_table_stays_text() {
    for text in others() {
        assert_eq!(Detected::detect(text.as_bytes()).content, Content::Text, "{text}");
        // A long one as well, which is decided before its end.
        let long = text.repeat(1 + 200_000 / text.len());
        assert_eq!(Detected::detect(long.as_bytes()).content, Content::Text, "{text}");
    }
}

#[test]
fn g14_a_table_that_is_not_most_of_a_text_is_no_table() {
    for (_, table, _) in samples() {
        let prose = "A line of prose that goes on and on.\n".repeat(200);
        for text in [format!("{table}\n{prose}"), format!("{prose}\n{table}")] {
            assert_eq!(read(&text).0, "text", "{text}");
        }
    }
}

/// A large table of the same layout.
fn long(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (header, rows) = lines.split_at(lines.len().min(4));
    let rows: Vec<&str> = rows.iter().copied().filter(|row| !row.starts_with('+')).collect();
    let mut long = header.join("\n") + "\n";
    while long.len() < 300_000 {
        long.push_str(&(rows.join("\n") + "\n"));
    }
    long
}

#[test]
fn g14_what_is_found_does_not_depend_on_the_chunks() {
    for (layout, text, _) in samples() {
        for payload in [long(&text), format!("Rows:\n{text}\nend"), format!("\u{feff}{text}")] {
            let whole = Detected::detect(payload.as_bytes());
            assert!(whole.records().is_some(), "{payload:.300}");
            let (lines, _) = record_lines(payload.as_bytes(), &whole, usize::MAX).unwrap();
            for size in [1, 3, 100, 4095, 98_304, 98_305] {
                let mut detector = Detector::new();
                payload.as_bytes().chunks(size).for_each(|chunk| detector.feed(chunk));
                let detected = detector.finish();
                assert_eq!(detected, whole, "{layout} {size}");
                let mut writer = RecordLines::new(detected.records().unwrap());
                let mut out = Vec::new();
                for chunk in payload.as_bytes().chunks(size) {
                    writer.feed(chunk, &mut out).unwrap();
                }
                let stats = writer.finish(&mut out).unwrap();
                assert_eq!(String::from_utf8(out).unwrap(), lines);
                assert_eq!(stats.count, lines.lines().count() as u64);
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::tree::cases(300))]

    #[test]
    fn prop_rows_of_any_text_are_read_the_same_in_any_chunks(
        lines in prop::collection::vec(proptest::sample::select(LINES), 10..40),
        header in proptest::sample::select(HEADERS),
        before in proptest::sample::select(&["", "\n", "Rows:\n\n", "   "][..]),
        chunk in 1usize..60,
    ) {
        let payload = format!("{before}{header}{}", lines.concat());
        let whole = Detected::detect(payload.as_bytes());
        let mut detector = Detector::with_stats();
        payload.as_bytes().chunks(chunk).for_each(|part| detector.feed(part));
        prop_assert_eq!(&detector.finish(), &whole);
        if let Some(records) = whole.records() {
            let (expected, _) = record_lines(payload.as_bytes(), &whole, usize::MAX).unwrap();
            prop_assert_eq!(expected.lines().count() as u64, records.count);
            let mut writer = RecordLines::new(records);
            let mut out = Vec::new();
            for part in payload.as_bytes().chunks(chunk) {
                writer.feed(part, &mut out).unwrap();
            }
            writer.finish(&mut out).unwrap();
            prop_assert_eq!(&String::from_utf8(out).unwrap(), &expected);
            for line in expected.lines() {
                let row = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line);
                prop_assert!(row.is_ok(), "{}", line);
            }
        }
    }
}

/// Headers, and rows that mostly agree with one of them.
const HEADERS: &[&str] = &[
    "",
    "a;b\n",
    "a|b\r\n",
    "| a | b |\n|---|---|\n",
    " a | b\n---+---\n",
    "+---+---+\n| a | b |\n+---+---+\n",
    "NAME   SIZE\n",
    "PID  TTY  TIME CMD\n",
];
const LINES: &[&str] = &[
    "1;2\n",
    "\"q;\n\";\u{e9}\n",
    "1|2\r\n",
    "| 1 | x |\n",
    "| \u{1f642} | \\| |\n",
    " 1 | 2\n",
    "   |  \n",
    "+---+---+\n",
    "web    12\n",
    "w\u{e9}b    1 2\n",
    "  1  p    0:00 x y\n",
    "a=1 b=\"x y\"\n",
    "b=\"\\x1b\" a=2.50 b=\n",
    "1 INFO {\"a\": [1, \"x y\"]}\n",
    "INFO: {}\n",
    "\n",
];

#[test]
fn g14_a_changed_table_is_noticed() {
    for (_, text, _) in samples() {
        let detected = Detected::detect(text.as_bytes());
        let lines: Vec<&str> = text.lines().collect();
        for other in [lines[..lines.len() - 3].join("\n"), text.replace('1', "\u{1}\n")] {
            let mut writer = RecordLines::new(detected.records().unwrap());
            let mut out = Vec::new();
            let written =
                writer.feed(other.as_bytes(), &mut out).and_then(|()| writer.finish(&mut out));
            assert!(written.is_err(), "{other}");
        }
    }
}

#[test]
fn g14_lines_with_one_comma_are_no_csv() {
    for line in ["10:00:00,123 INFO ready", "call(a=0, b=2)", "x=0, y=0", "Well, that is it."] {
        let text = (0..20).map(|_| line).collect::<Vec<_>>().join("\n");
        assert_eq!(Detected::detect(text.as_bytes()).content, Content::Text, "{line}");
    }
    let text = "name,city\n".to_owned() + &"Ann,Lyon\n".repeat(3);
    assert!(Detected::detect(text.as_bytes()).records().is_some());
}
