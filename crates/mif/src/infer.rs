//! Titles and links, inferred from content.
//!
//! They are inferred at capture only: importing never invents data.

/// The longest inferred title, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// Infers a title: the first line with text, without heading marks, truncated to 120 characters.
/// `None` if the content has only white space and heading marks.
pub fn title_from(content: &str) -> Option<String> {
    let line = content
        .lines()
        .map(|line| line.trim().trim_start_matches('#').trim())
        .find(|line| !line.is_empty())?;
    if line.chars().nth(MAX_TITLE_CHARS).is_none() {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(MAX_TITLE_CHARS - 1).collect();
    Some(format!("{}…", cut.trim_end()))
}

/// Infers a title, or returns "untitled".
pub fn title_or_untitled(content: &str) -> String {
    title_from(content).unwrap_or_else(|| "untitled".to_owned())
}

/// Returns the targets of `[[target]]` and `[[target|label]]` links in a content, each once, in
/// order. A link does not span lines.
pub fn wiki_links_in(content: &str) -> Vec<String> {
    let mut links: Vec<String> = Vec::new();
    for line in content.lines() {
        let mut rest = line;
        while let Some(start) = rest.find("[[") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find("]]") else { break };
            // `[[a [[b]]` is a link to b: the innermost opening counts.
            let inner = rest[..end].rfind("[[").map_or(&rest[..end], |at| &rest[at + 2..end]);
            let target = inner.split('|').next().unwrap_or_default().trim();
            if !target.is_empty() && !links.iter().any(|link| link == target) {
                links.push(target.to_owned());
            }
            rest = &rest[end + 2..];
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles() {
        assert_eq!(title_from("\n\n## Dark mode \r\nmore").as_deref(), Some("Dark mode"));
        assert_eq!(title_from(" \n#\n"), None);
        let long = title_from(&"é".repeat(500)).unwrap();
        assert_eq!(long.chars().count(), 120);
        assert!(long.ends_with('…'));
        assert_eq!(title_from(&"x".repeat(120)).unwrap().len(), 120);
    }

    #[test]
    fn links() {
        let content =
            "See [[a]], [[b c|label]], [[a]], [[]] and [[x\n]] @[[Jane Doe|Person]] [[q [[r]]";
        assert_eq!(wiki_links_in(content), ["a", "b c", "Jane Doe", "r"]);
    }
}
