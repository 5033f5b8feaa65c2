//! The guidance of a descriptor that a hook returns: it names what the agent has.

use serde::Deserialize;
use serde_json::Value;

use super::tool::EXTRACTION;

/// How an agent can query a stored output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guidance<'a> {
    /// With `atlatl extract` in a shell.
    Shell {
        /// Whether the shell may be in another directory than the one that stored the output.
        all: bool,
    },
    /// With the tools of `atlatl tools`, under names with this prefix.
    Tools {
        /// The prefix that the host puts before the name of a tool.
        prefix: &'a str,
    },
}

#[derive(Deserialize)]
struct Descriptor<'a> {
    #[serde(borrow)]
    lro: Lro<'a>,
    #[serde(borrow)]
    summary: Summary<'a>,
    guidance: String,
}

#[derive(Deserialize)]
struct Lro<'a> {
    #[serde(rename = "ref")]
    reference: &'a str,
}

#[derive(Deserialize)]
struct Summary<'a> {
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    kind: Option<&'a str>,
    estimated_tokens: u64,
}

/// The member that every descriptor ends with.
const MEMBER: &str = ",\"guidance\":";

impl Guidance<'_> {
    /// The descriptor with this guidance in place of its own, which names the tools without a prefix.
    /// `None` if it is not a descriptor.
    pub(crate) fn apply(self, descriptor: &str) -> Option<String> {
        let parsed: Descriptor<'_> = serde_json::from_str(descriptor).ok()?;
        let text = match self {
            Self::Shell { all } => shell(&parsed, all),
            Self::Tools { prefix } => with_prefix(&parsed.guidance, prefix),
        };
        let before = &descriptor[..descriptor.rfind(MEMBER)?];
        Some(format!("{before}{MEMBER}{}}}", Value::from(text)))
    }
}

/// The guidance with `prefix` before the name of every tool.
fn with_prefix(guidance: &str, prefix: &str) -> String {
    EXTRACTION
        .iter()
        .fold(guidance.to_owned(), |text, name| text.replace(name, &format!("{prefix}{name}")))
}

fn shell(descriptor: &Descriptor<'_>, all: bool) -> String {
    let Descriptor { lro: Lro { reference }, summary, .. } = descriptor;
    let option = if all { "--all " } else { "" };
    let extract = format!("atlatl extract {option}{reference}");
    let show = format!("atlatl results show {option}{reference} --original");
    let (what, how) = match (summary.kind, summary.count) {
        (Some("records") | None, count) => (
            format!("{} records", count.unwrap_or_default()),
            format!(
                "{extract} --sql \"SELECT <field>, count(*) FROM results GROUP BY 1\" (nested: <field> \
                 ->> '$.<inner>'); {extract} --query '<jq per record>' (--whole for all at once); \
                 {extract} --search '<word>'"
            ),
        ),
        (Some("json"), _) => (
            "One JSON document".to_owned(),
            format!("{extract} --query 'keys'; {extract} --search '<word>'"),
        ),
        (Some("text"), _) => (
            "Text".to_owned(),
            format!(
                "{extract} --search '<word>' (--context 3, --group-by 1 counts by capture group); \
                 {extract} --read lines:-50.. for its end; {extract} --sql \"SELECT line, text FROM \
                 results WHERE text LIKE '%<word>%'\""
            ),
        ),
        (Some("base64"), _) => ("Base64".to_owned(), format!("{extract} --read 0..2000")),
        _ => ("Binary data".to_owned(), format!("{extract} --read 0..2000; {show} > FILE")),
    };
    format!(
        "{what} (~{} tokens) stored whole instead of shown. Print the part that is needed in a shell, \
         for example: {how}. All of it: {show}",
        summary.estimated_tokens
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"lro":{"ref":"lro:01ABC","preview":"a,\"guidance\":1"},"offloaded":true,"summary":{"kind":"text","bytes":9,"estimated_tokens":12000},"file_path":"/r/x","guidance":"Text (~12000 tokens) stored. For example: search_large_output(ref=\"lro:01ABC\", pattern=\"x\"), or lro_extract(ref=\"lro:01ABC\")"}"#;

    #[test]
    fn tools_get_the_prefix_of_the_client() {
        let guided = Guidance::Tools { prefix: "mcp__atlatl__" }.apply(TEXT).unwrap();
        let parsed: Value = serde_json::from_str(&guided).unwrap();
        let guidance = parsed["guidance"].as_str().unwrap();
        assert!(guidance.contains("mcp__atlatl__search_large_output(ref="), "{guidance}");
        assert!(guidance.contains("or mcp__atlatl__lro_extract(ref="), "{guidance}");
        assert_eq!(parsed["lro"]["preview"], "a,\"guidance\":1");
    }

    #[test]
    fn a_shell_gets_a_command_that_finds_the_result_from_every_directory() {
        let guided = Guidance::Shell { all: true }.apply(TEXT).unwrap();
        let parsed: Value = serde_json::from_str(&guided).unwrap();
        let guidance = parsed["guidance"].as_str().unwrap();
        assert!(guidance.contains("atlatl extract --all lro:01ABC --search"), "{guidance}");
        assert!(!guidance.contains("large_output"), "{guidance}");
        assert_eq!(Guidance::Shell { all: true }.apply("{}"), None);
        let here = Guidance::Shell { all: false }.apply(TEXT).unwrap();
        assert!(here.contains("atlatl extract lro:01ABC --search"), "{here}");
    }
}
