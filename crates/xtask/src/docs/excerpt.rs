//! Excerpts: code blocks that must be part of a file, so that guides stay up to date.

/// Reports an error if `lines` are not consecutive lines of `file`; common indentation is ignored.
pub(super) fn check(file: &str, lines: &[impl AsRef<str>]) -> Option<String> {
    let lines = unindented(lines);
    if lines.iter().all(String::is_empty) {
        return Some("an excerpt without a line".to_owned());
    }
    let source: Vec<&str> = file.lines().collect();
    let found = source.windows(lines.len()).any(|part| unindented(part) == lines);
    (!found).then(|| format!("no such lines:\n    {}", lines.join("\n    ")))
}

/// The lines without the indentation that all of them have.
fn unindented(lines: &[impl AsRef<str>]) -> Vec<String> {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let written = lines.iter().filter(|line| !line.trim().is_empty());
    let common = written.map(depth).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or("").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn a() {\n    if b {\n        c();\n\n        d();\n    }\n}\n";

    #[test]
    fn a_part_of_a_file_may_be_indented_otherwise() {
        assert_eq!(check(FILE, &["if b {", "    c();", "", "    d();", "}"]), None);
        assert_eq!(check(FILE, &["fn a() {", "    if b {"]), None);
    }

    #[test]
    fn other_lines_another_order_and_gaps_are_found() {
        assert!(check(FILE, &["e();"]).is_some());
        assert!(check(FILE, &["c();", "d();"]).is_some());
        assert!(check(FILE, &["if b {", "c();"]).is_some(), "indentation within the part counts");
        assert!(check(FILE, &[""; 0]).is_some());
    }
}
