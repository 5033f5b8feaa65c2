//! The location of a stored result, and the commands that read it.

use crate::shell_quote::shell_word;

/// Where a client gets the bytes of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place<'a> {
    /// The absolute path of a file, as the client shall see it.
    File(&'a str),
    /// A link, good for a few minutes.
    Link(&'a str),
}

impl<'a> Place<'a> {
    /// As a descriptor has it.
    pub fn as_str(self) -> &'a str {
        match self {
            Self::File(text) | Self::Link(text) => text,
        }
    }

    /// The command that prints the records, without the header.
    pub(crate) fn records(self) -> String {
        match self {
            Self::File(path) => format!("tail -n +2 {}", shell_word(path)),
            Self::Link(link) => format!("{} | tail -n +2", fetched(link)),
        }
    }

    /// The command that gives all of it to `program`, which takes a file or its standard input.
    pub(crate) fn given_to(self, program: &str) -> String {
        match self {
            Self::File(path) => format!("{program} {}", shell_word(path)),
            Self::Link(link) => format!("{} | {program} -", fetched(link)),
        }
    }
}

/// It fails where the link has had its time, instead of giving an error's text for data.
fn fetched(link: &str) -> String {
    format!("curl -fsS {}", shell_word(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_where_the_bytes_are() {
        let file = Place::File("/tmp/a b.jsonl");
        assert_eq!(file.records(), "tail -n +2 '/tmp/a b.jsonl'");
        assert_eq!(file.given_to("jq keys"), "jq keys '/tmp/a b.jsonl'");
        let link = Place::Link("https://h/v1/offloads/X/a.b");
        assert_eq!(link.records(), "curl -fsS 'https://h/v1/offloads/X/a.b' | tail -n +2");
        assert_eq!(link.given_to("file"), "curl -fsS 'https://h/v1/offloads/X/a.b' | file -");
    }
}
