//! JSON as a tree of lexemes, which tests serialize with any white space.

use proptest::prelude::*;

/// A value by its lexemes: its spelling, not its meaning.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    /// A number, a literal or a string, as written.
    Leaf(String),
    Array(Vec<Tree>),
    /// Members in order; the names are string lexemes, and may be duplicates.
    Object(Vec<(String, Tree)>),
    /// This many nested objects; not an array, so that it is never taken for records.
    Deep(usize),
}

impl Tree {
    /// Without white space.
    pub(crate) fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut std::iter::repeat(""));
        out
    }

    /// With white space from `spaces` wherever it is allowed.
    pub(crate) fn spaced(&self, spaces: &[String]) -> String {
        let mut out = String::new();
        let mut spaces = spaces.iter().map(String::as_str).cycle();
        out.push_str(spaces.next().unwrap_or_default());
        self.write(&mut out, &mut spaces);
        out.push_str(spaces.next().unwrap_or_default());
        out
    }

    fn write(&self, out: &mut String, spaces: &mut dyn Iterator<Item = &str>) {
        fn gap(out: &mut String, spaces: &mut dyn Iterator<Item = &str>) {
            out.push_str(spaces.next().unwrap_or_default());
        }
        match self {
            Self::Leaf(lexeme) => out.push_str(lexeme),
            Self::Deep(depth) => {
                out.push_str(&"{\"d\":".repeat(*depth));
                gap(out, spaces);
                out.push('0');
                out.push_str(&"}".repeat(*depth));
            }
            Self::Array(items) => {
                out.push('[');
                gap(out, spaces);
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                        gap(out, spaces);
                    }
                    item.write(out, spaces);
                    gap(out, spaces);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                gap(out, spaces);
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                        gap(out, spaces);
                    }
                    out.push_str(name);
                    gap(out, spaces);
                    out.push(':');
                    gap(out, spaces);
                    value.write(out, spaces);
                    gap(out, spaces);
                }
                out.push('}');
            }
        }
    }

    /// The arrays reached through members alone, with the names that lead there.
    pub(crate) fn arrays(&self) -> Vec<(Vec<&str>, &[Tree])> {
        match self {
            Self::Array(items) => vec![(Vec::new(), items)],
            Self::Object(members) => members
                .iter()
                .flat_map(|(name, value)| {
                    value.arrays().into_iter().map(move |(mut path, items)| {
                        path.insert(0, name);
                        (path, items)
                    })
                })
                .collect(),
            Self::Leaf(_) | Self::Deep(_) => Vec::new(),
        }
    }
}

/// White space as JSON allows it.
pub(crate) fn spaces() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ \t\r\n]{0,3}", 1..7)
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[ -!#-\\[\\]-~]{0,12}",
        2 => "[\u{80}-\u{d7ff}\u{e000}-\u{10ffff}]{1,4}",
        1 => Just("\u{202e}\u{200b}\u{e0041}".to_owned()),
        1 => prop::sample::select(vec!["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"])
            .prop_map(str::to_owned),
        // Any four hexadecimal digits: pairs, lone surrogates, NUL.
        2 => "\\\\u[0-9a-fA-F]{4}",
        1 => Just("\\ud83d\\ude00\\ud800".to_owned()),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn leaf() -> impl Strategy<Value = Tree> {
    prop_oneof![
        3 => string(),
        1 => "-?(0|[1-9][0-9]{0,40})",
        1 => "-?(0|[1-9][0-9]{0,5})\\.[0-9]{1,40}([eE][+-]?[0-9]{1,3})?",
        1 => prop::sample::select(vec!["true", "false", "null", "-0", "1E400", "0e-0"])
            .prop_map(str::to_owned),
    ]
    .prop_map(Tree::Leaf)
}

/// Any value.
pub(crate) fn value() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![40 => leaf(), 1 => (1usize..1100).prop_map(Tree::Deep)];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::Array),
            // Few names, so that objects have duplicates, in more than one spelling.
            prop::collection::vec(
                (prop_oneof![string(), "\"([a-c]|\\\\u006[1-3])\""], inner),
                0..6
            )
            .prop_map(Tree::Object),
        ]
    })
}

/// A payload: mostly an array of records in some envelope.
pub(crate) fn payload() -> impl Strategy<Value = Tree> {
    let records = || prop::collection::vec(value(), 0..12).prop_map(Tree::Array);
    let enveloped = (
        prop::collection::vec((string(), value()), 0..3),
        prop_oneof![string(), "\"(items|memories|data)\""],
        records(),
        prop::collection::vec((string(), value()), 0..3),
        0usize..4,
    )
        .prop_map(|(before, name, records, after, depth)| {
            let mut members = before;
            members.push((name, records));
            members.extend(after);
            let mut tree = Tree::Object(members);
            for level in 0..depth {
                tree = Tree::Object(vec![(format!("\"level{level}\""), tree)]);
            }
            tree
        });
    prop_oneof![3 => enveloped, 2 => records(), 1 => prop::collection::vec((string(), value()), 0..5).prop_map(Tree::Object)]
}

/// The number of cases per property: a sample by default, more in a long run.
pub(crate) fn cases(sample: u32) -> ProptestConfig {
    let cases = std::env::var("ATLATL_SOAK_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases.unwrap_or(sample))
    }
}
