//! Expand: `${NAME}` in a client's entry, as clients understand it.

use std::path::Path;

/// `text` with its variables put in; nothing where one means something that only a client knows.
pub(super) fn expand(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
    project: &Path,
) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find('}') else { break };
        out += before;
        out += &value(&from[2..end], &variable, project)?;
        rest = &from[end + 1..];
    }
    Some(out + rest)
}

fn value(name: &str, variable: &impl Fn(&str) -> Option<String>, project: &Path) -> Option<String> {
    if name == "workspaceFolder" {
        return project.to_str().map(str::to_owned);
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    match name.split_once(":-") {
        Some((name, default)) => Some(variable(name).unwrap_or_else(|| default.to_owned())),
        None => variable(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_and_what_only_a_client_knows_is_not() {
        let variable = |name: &str| (name == "KEY").then(|| "k".to_owned());
        let expanded = |text: &str| expand(text, variable, Path::new("/p"));
        assert_eq!(expanded("a ${KEY} ${env:KEY} ${NO:-x} $KEY ${").unwrap(), "a k k x $KEY ${");
        assert_eq!(expanded("${workspaceFolder}/x").unwrap(), "/p/x");
        assert_eq!(expanded("${input:key}"), None);
        assert_eq!(expanded("${NO}"), None);
    }
}
