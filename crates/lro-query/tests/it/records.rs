//! Sets of unusual records.

use lro_core::OptionalFields;
use lro_core::records::Detected;
use testkit::SplitMix64;

/// A set of records.
pub(crate) struct Set {
    pub(crate) lines: Vec<String>,
    pub(crate) optional: OptionalFields,
}

impl Set {
    /// The records of a payload, an array, after storing.
    pub(crate) fn stored(records: &[String]) -> Self {
        let payload = format!("[{}]", records.join(","));
        let found = Detected::detect(payload.as_bytes());
        let (text, stats) = lro_core::record_lines(payload.as_bytes(), &found, usize::MAX).unwrap();
        let lines = text.lines().map(str::to_owned).collect();
        Self { lines, optional: OptionalFields::from_shape(&stats.shape) }
    }

    /// The lines after a header, and their offset.
    pub(crate) fn file(&self) -> (Vec<u8>, u64) {
        let header = format!("{{\"type\":\"lro_header\",\"count\":{}}}\n", self.lines.len());
        let lines: String = self.lines.iter().flat_map(|line| [line, "\n"]).collect();
        (format!("{header}{lines}").into_bytes(), header.len() as u64)
    }
}

/// The values of a field throughout a set.
#[derive(Clone, Copy)]
enum Habit {
    Proper,
    Sometimes,
    Anything,
}

const FIELDS: [&str; 8] =
    ["id", "memory_type", "created", "title", "namespace", "tags", "content", "confidence"];

/// A set of up to 14 records.
pub(crate) fn odd_set(random: &mut SplitMix64) -> Set {
    let habits = FIELDS.map(|_| *random.pick(&[Habit::Proper, Habit::Sometimes, Habit::Anything]));
    let provenance = *random.pick(&[Habit::Proper, Habit::Sometimes, Habit::Anything]);
    let count = 1 + random.below(14);
    let records: Vec<String> = (0..count)
        .map(|_| {
            let mut members = Vec::new();
            for (name, habit) in FIELDS.iter().zip(habits) {
                let proper = proper(name, random);
                members.extend(member(name, habit, proper, random));
            }
            let confidence = member("confidence", habits[7], number(random), random);
            let inner = format!("{{{}}}", confidence.join(","));
            members.extend(member("provenance", provenance, inner, random));
            if random.chance(30) {
                members.push(format!("\"extra\":{}", anything(2, random)));
            }
            for i in (1..members.len()).rev() {
                members.swap(i, random.below(i + 1));
            }
            format!("{{{}}}", members.join(","))
        })
        .collect();
    Set::stored(&records)
}

/// The member as text: none if it is missing, two if it is duplicated.
fn member(name: &str, habit: Habit, proper: String, random: &mut SplitMix64) -> Vec<String> {
    let (absent, odd) = match habit {
        Habit::Proper => (0, 0),
        Habit::Sometimes => (40, 0),
        Habit::Anything => (20, 40),
    };
    let mut members = Vec::new();
    if random.chance(4) {
        let first = if random.chance(odd) { anything(2, random) } else { proper.clone() };
        members.push(format!("{}:{first}", spelled(name, random)));
    }
    if random.chance(absent) {
        if random.chance(50) {
            members.push(format!("{}:null", spelled(name, random)));
        }
        return members;
    }
    let value = if random.chance(odd) { anything(3, random) } else { proper };
    members.push(format!("{}:{value}", spelled(name, random)));
    members
}

/// The name of a field, sometimes with its first letter escaped.
fn spelled(name: &str, random: &mut SplitMix64) -> String {
    if random.chance(4) {
        let first = u32::from(name.chars().next().unwrap());
        return format!("\"\\u{first:04x}{}\"", &name[1..]);
    }
    format!("\"{name}\"")
}

fn proper(name: &str, random: &mut SplitMix64) -> String {
    match name {
        "memory_type" => {
            (*random.pick(&[r#""semantic""#, r#""epi\u0073odic""#, r#""procedural""#])).to_owned()
        }
        "created" => {
            let (day, zone) = (1 + random.below(9), *random.pick(&["Z", "+00:00", ""]));
            format!("\"2026-01-0{day}T00:00:00{zone}\"")
        }
        "namespace" => {
            let root = *random.pick(&["_semantic", "_sem", "_public", r"\u005fsemantic", "_é"]);
            let rest = *random.pick(&["", "/decisions", r"\/decisions", "/日本"]);
            format!("\"{root}{rest}\"")
        }
        "tags" => {
            let tags: Vec<String> = (0..random.below(4)).map(|_| tag(random)).collect();
            format!("[{}]", tags.join(","))
        }
        "confidence" => number(random),
        _ => string(random),
    }
}

fn tag(random: &mut SplitMix64) -> String {
    if random.chance(15) {
        return anything(1, random);
    }
    (*random.pick(&[r#""TAG""#, r#""T\u0041G""#, r#""tag""#, r#""a b""#, r#""日""#, r#""""#]))
        .to_owned()
}

fn number(random: &mut SplitMix64) -> String {
    (*random.pick(&[
        "0",
        "-0",
        "0.5",
        "0.50",
        "5e-1",
        "1",
        "1.0",
        "10",
        "-3",
        "0.1",
        "1E2",
        "100",
        "9007199254740993",
        "12345678901234567890123",
        "1e-320",
        "-0.25",
    ]))
    .to_owned()
}

const PIECES: [&str; 34] = [
    "keyword",
    "KeyWord",
    "key",
    " ",
    " ",
    "a",
    "b",
    "A",
    "foo",
    "bar",
    "xx",
    "xxx",
    "7",
    "2026",
    ".",
    "$",
    "é",
    "É",
    "日本",
    "語",
    "🙂",
    r"\ud83d\ude42",
    r"\u00e9",
    r"\n",
    r"\t",
    r"\r",
    r"\\",
    r#"\""#,
    r"\/",
    r"\u0000",
    r"\udc00",
    r"\b",
    r"\u2028",
    "Ω",
];

fn string(random: &mut SplitMix64) -> String {
    let pieces: String = (0..random.below(7)).map(|_| *random.pick(&PIECES)).collect();
    format!("\"{pieces}\"")
}

/// Any JSON value, nested up to `depth`.
fn anything(depth: usize, random: &mut SplitMix64) -> String {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => "null".to_owned(),
        1 => "false".to_owned(),
        2 => "true".to_owned(),
        3 => number(random),
        4 | 5 => string(random),
        6 | 7 => {
            let elements: Vec<String> =
                (0..random.below(3)).map(|_| anything(depth - 1, random)).collect();
            format!("[{}]", elements.join(","))
        }
        _ => {
            let members: Vec<String> = (0..random.below(3))
                .map(|_| {
                    let name = *random.pick(&["a", "b", "confidence", "TAG"]);
                    format!("\"{name}\":{}", anything(depth - 1, random))
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}
