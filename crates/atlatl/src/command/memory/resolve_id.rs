//! Resolves an id, or the beginning of one, to a memory.

use atlatl_memory::MemoryStore;
use mif::MemoryId;

use crate::error::Error;

/// The fewest digits that stand for an id.
const FEWEST_DIGITS: usize = 8;
/// How many ids are named where one was meant.
const CANDIDATES: usize = 5;
/// Where to look for ids.
const HINT: &str = "atlatl memory list";

/// The id that `typed` is, or is the beginning of.
pub(super) fn id(typed: &str, store: &dyn MemoryStore) -> Result<MemoryId, Error> {
    let typed = typed.trim();
    if let Ok(id) = typed.parse() {
        return Ok(id);
    }
    let (first, last) = range(typed).ok_or_else(|| {
        let expected = format!("expected an id, or at least its first {FEWEST_DIGITS} digits");
        Error::usage(format!("{typed}: {expected}")).with_hint(HINT)
    })?;
    let mut ids = store.ids(&first, &last, CANDIDATES + 1)?;
    match &ids[..] {
        [] => Err(missing(typed)),
        [_] => Ok(ids.remove(0)),
        _ => {
            let more = if ids.len() > CANDIDATES { " and more" } else { "" };
            let ids: Vec<&str> = ids.iter().take(CANDIDATES).map(MemoryId::as_str).collect();
            Err(Error::failure(format!("{typed} begins several ids: {}{more}", ids.join(", ")))
                .with_hint("type more of it"))
        }
    }
}

/// What to say of a memory that is not there.
pub(super) fn missing(typed: &str) -> Error {
    Error::failure(format!("{typed}: there is no such memory")).with_hint(HINT)
}

/// The first and the last id that begin with these digits, if they are enough to stand for one.
fn range(typed: &str) -> Option<(MemoryId, MemoryId)> {
    let digits = typed.strip_prefix("urn:mif:").unwrap_or(typed);
    let enough = digits.bytes().filter(|byte| *byte != b'-').count() >= FEWEST_DIGITS;
    MemoryId::beginning_with(digits).filter(|_| enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_range() {
        let (first, last) = range("018F4e2a-7").unwrap();
        assert_eq!(first.as_str(), "018f4e2a-7000-0000-0000-000000000000");
        assert_eq!(last.as_str(), "018f4e2a-7fff-ffff-ffff-ffffffffffff");
        for wrong in ["018f4e2", "018f4e2g0", "", "é8f4e2a0", "+18f4e2a0"] {
            assert!(range(wrong).is_none(), "{wrong}");
        }
    }
}
