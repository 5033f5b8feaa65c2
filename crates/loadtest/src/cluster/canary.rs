//! Canary: a word that one tenant alone writes. Where another reads it, something leaked.

/// What every canary begins with, and nothing else that we write.
const MARK: &str = "canary";

/// The canary of a tenant. Those of two tenants differ in their number, so that the beginning of one,
/// where a text was cut, is told from the other as well.
pub(super) fn new(tenant: usize, random: u64) -> String {
    format!("{MARK}{tenant:03}x{:010x}", random & 0xff_ffff_ffff)
}

/// The canaries in an answer that are not `own`, whole or cut off.
pub(super) fn foreign(answer: &[u8], own: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let own = own.strip_prefix(MARK).unwrap_or(own);
    text.match_indices(MARK)
        .map(|(at, _)| &text[at + MARK.len()..])
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            &rest[..end.min(own.len())]
        })
        // Without a number behind it, it is the word of a language.
        .filter(|found| found.starts_with(|c: char| c.is_ascii_digit()) && !own.starts_with(found))
        .map(|found| format!("{MARK}{found}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_another_tenants_is_foreign() {
        let (ann, bob) = (new(1, 0xabc), new(2, u64::MAX));
        assert_eq!((&*ann, &*bob), ("canary001x0000000abc", "canary002xffffffffff"));
        for clean in [
            String::new(),
            "canary, canary and canaries".to_owned(),
            ann.clone(),
            format!("{ann}{ann}"),
            format!("{{\"content\":\"{ann} sings\",\"tags\":[\"{ann}\"]}}"),
            // Cut off, as a preview may be.
            ann[..12].to_owned(),
        ] {
            assert!(foreign(clean.as_bytes(), &ann).is_empty(), "{clean}");
        }
        for leaked in [
            bob.clone(),
            format!("x{bob}y"),
            format!("{ann} {bob} {ann}"),
            // Cut off behind the number of the tenant.
            bob[..9].to_owned(),
        ] {
            assert_eq!(foreign(leaked.as_bytes(), &ann).len(), 1, "{leaked}");
        }
        assert_eq!(foreign(format!("{bob}{bob} {ann}").as_bytes(), &ann), [&*bob, &*bob]);
        // Bytes that are no text around it hide nothing.
        let odd = [&[0xff, 0xc3][..], bob.as_bytes(), &[0xe2, 0x82]].concat();
        assert_eq!(foreign(&odd, &ann), [bob]);
    }
}
