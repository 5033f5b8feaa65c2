//! The JSON cursor of the recipes: the shared one, with errors as flaws of a record.

use lro_json::SyntaxError;

use super::error::Flaw;

pub(super) use lro_json::{Cursor, LexemeKind as Kind, string_inside as inside};

impl From<SyntaxError> for Flaw {
    fn from(_: SyntaxError) -> Self {
        Self::NotJson
    }
}
