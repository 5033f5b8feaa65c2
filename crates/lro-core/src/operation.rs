//! Operation: what was called, reduced to names that may stand in a path and in trusted text.

use crate::detail::Detail;

/// The longest slug made from a tool's name.
const SLUG_CAP: usize = 40;

/// The operation that produced a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `recall_memories`.
    Recall,
    /// `search_memories`.
    Search,
    /// `inject_context`.
    Inject,
    /// `list_memories`.
    List,
    /// Any other tool.
    Tool(Slug),
}

/// A tool's name reduced to `[a-z0-9_-]{1,40}`: it comes from a server, so it is never used as it
/// came where a path is built or a sentence is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slug(String);

impl Operation {
    /// The operation behind a tool's name.
    pub fn of_tool(name: &str) -> Self {
        match name {
            "recall_memories" => Self::Recall,
            "search_memories" => Self::Search,
            "inject_context" => Self::Inject,
            "list_memories" => Self::List,
            other => Self::Tool(Slug::new(other)),
        }
    }

    /// The name in file names, headers and summaries.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Recall => "recall",
            Self::Search => "search",
            Self::Inject => "inject",
            Self::List => "list",
            Self::Tool(slug) => &slug.0,
        }
    }

    /// Whether it is one of the four memory operations of the specification.
    pub fn is_memory(&self) -> bool {
        !matches!(self, Self::Tool(_))
    }

    /// Spec D1: the detail level when the caller asked for none.
    pub fn default_detail(&self) -> Detail {
        match self {
            Self::Inject => Detail::Medium,
            _ => Detail::Light,
        }
    }
}

impl Slug {
    fn new(name: &str) -> Self {
        let slug: String = name
            .chars()
            .take(SLUG_CAP)
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '-' | '_') => c,
                _ => '_',
            })
            .collect();
        Self(if slug.is_empty() { "tool".to_owned() } else { slug })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_the_default_detail_is_light_and_medium_for_inject_context() {
        for tool in ["recall_memories", "search_memories", "list_memories"] {
            assert_eq!(Operation::of_tool(tool).default_detail(), Detail::Light);
        }
        assert_eq!(Operation::of_tool("inject_context").default_detail(), Detail::Medium);
    }

    #[test]
    fn a_hostile_tool_name_becomes_a_harmless_slug() {
        for (name, slug) in [
            ("Read File", "read_file"),
            ("../../etc/passwd", "______etc_passwd"),
            ("", "tool"),
            ("\u{202e}x\n", "_x_"),
        ] {
            assert_eq!(Operation::of_tool(name).as_str(), slug);
        }
        assert_eq!(Operation::of_tool(&"x".repeat(500)).as_str().len(), SLUG_CAP);
    }
}
