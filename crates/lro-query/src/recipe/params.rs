//! Params: what a recipe is told besides its number. Data, never program text (Spec N3).

use super::error::RecipeError;

/// The values for a recipe's placeholders.
///
/// The defaults are the placeholders of the specification's commands, so that a recipe without
/// parameters answers what its command would.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Params {
    /// How the namespaces wanted by recipe 2 begin.
    pub namespace: String,
    /// What titles (recipe 3) and contents (recipe 10) are searched for: a regular expression,
    /// upper and lower case alike. One difference from `jq` is known: `ss` does not find `ß`.
    pub keyword: String,
    /// The type of memory wanted by recipe 5.
    pub memory_type: String,
    /// The tag wanted by recipe 7.
    pub tag: String,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            namespace: "_semantic".to_owned(),
            keyword: "keyword".to_owned(),
            memory_type: "semantic".to_owned(),
            tag: "TAG".to_owned(),
        }
    }
}

impl Params {
    /// Their names.
    pub const NAMES: [&'static str; 4] = ["namespace", "keyword", "memory_type", "tag"];

    /// Sets the parameter of this name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), RecipeError> {
        let field = match name {
            "namespace" => &mut self.namespace,
            "keyword" => &mut self.keyword,
            "memory_type" => &mut self.memory_type,
            "tag" => &mut self.tag,
            _ => return Err(RecipeError::UnknownParam { name: name.to_owned() }),
        };
        *field = value.into();
        Ok(())
    }
}
