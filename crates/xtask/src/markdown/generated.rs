//! Generated parts of a document: the text between `<!-- generated: NAME -->` and `<!-- end -->`.

use std::fs;

use anyhow::{Result, bail};

use crate::repository::Repository;

const END: &str = "<!-- end -->";

/// Puts `body` into the part called `name` of `document`.
pub fn write(repository: &Repository, document: &str, name: &str, body: &str) -> Result<()> {
    let Some(text) = replace(&repository.read(document)?, name, body) else {
        bail!("{document} has no part `{}` … `{END}`", begin(name));
    };
    Ok(fs::write(repository.path(document), text)?)
}

fn begin(name: &str) -> String {
    format!("<!-- generated: {name} -->")
}

/// The document with the part replaced; `None` when it has no such part.
pub(crate) fn replace(document: &str, name: &str, body: &str) -> Option<String> {
    let begin = begin(name);
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{}\n{END}{after}", body.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_part_changes() {
        let document = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n\
                        <!-- generated: y -->\nkept\n<!-- end -->\n";
        let replaced = replace(document, "x", "new\n").unwrap();
        assert_eq!(replaced, document.replace("old", "new"));
        assert_eq!(replace(&replaced, "x", "new").unwrap(), replaced);
    }

    #[test]
    fn a_missing_part_is_not_invented() {
        assert_eq!(replace("a\n", "x", "new"), None);
        assert_eq!(replace("<!-- generated: x -->\nnever closed", "x", "new"), None);
    }
}
