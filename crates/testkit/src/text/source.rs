//! Source code made from templates.

use crate::random::SplitMix64;

/// `{f}` is a function, `{a}` and `{b}` are variables, `{n}` is a number.
const TEMPLATES: &[&str] = &[
    "/// Returns the {a} that belongs to a {b}.\npub fn {f}({a}: &[u32], {b}: usize) -> Option<u32> {\n    let mut total = {n};\n    for value in {a}.iter().take({b}) {\n        total += value.checked_mul(2)?;\n    }\n    Some(total)\n}\n\n",
    "impl {F} {\n    fn {f}(&mut self, {a}: &str) -> Result<(), Error> {\n        if {a}.len() > {n} {\n            return Err(Error::TooLong { limit: {n}, found: {a}.len() });\n        }\n        self.{b}.push({a}.to_owned());\n        Ok(())\n    }\n}\n\n",
    "#[test]\nfn {f}_keeps_{a}() {\n    let {b} = {F}::new({n});\n    assert_eq!({b}.{a}(), {n}, \"after {f}\");\n}\n\n",
    "def {f}({a}, {b}=None):\n    \"\"\"Combine {a} with {b}.\"\"\"\n    if {b} is None:\n        {b} = {{}}\n    for key, value in sorted({a}.items()):\n        {b}[key] = value * {n} if isinstance(value, int) else value\n    return {b}\n\n\n",
    "class {F}:\n    LIMIT = {n}\n\n    def __init__(self, {a}):\n        self.{a} = list({a})\n\n    def {f}(self):\n        return [x for x in self.{a} if x % 2 == 0][: self.LIMIT]\n\n\n",
    "export async function {f}({a}, { {b} = {n} } = {}) {\n  const response = await fetch(`/v1/{a}?limit=${{b}}`);\n  if (!response.ok) throw new Error(`{f}: ${response.status}`);\n  return (await response.json()).{a} ?? [];\n}\n\n",
    "const {f} = ({a}) => {a}.filter(({b}) => {b}.size > {n}).map(({b}) => ({ ...{b}, seen: true }));\n\n",
    "match {a}.{f}() {\n    Some({b}) if {b} > 0x{n} => state = State::{F}({b}),\n    Some(_) => {}\n    None => return Err(io::ErrorKind::UnexpectedEof.into()),\n}\n\n",
];
const VERBS: &[&str] =
    &["load", "merge", "parse", "count", "split", "write", "check", "fetch", "sort", "trim"];
const NOUNS: &[&str] = &[
    "rows", "index", "header", "page", "token", "cursor", "frame", "entry", "scope", "batch",
    "limit", "buffer",
];

pub(super) fn code(size: usize, seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut text = String::new();
    while text.len() < size {
        let (verb, noun) = (*random.pick(VERBS), *random.pick(NOUNS));
        let (a, b) = loop {
            let (a, b) = (*random.pick(NOUNS), *random.pick(NOUNS));
            if a != b {
                break (a, b);
            }
        };
        let template = *random.pick(TEMPLATES);
        text.push_str(
            &template
                .replace("{F}", &format!("{}{}", capitalised(verb), capitalised(noun)))
                .replace("{f}", &format!("{verb}_{noun}"))
                .replace("{a}", a)
                .replace("{b}", b)
                .replace("{n}", &(2 + random.below(4000)).to_string()),
        );
    }
    text
}

fn capitalised(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}
