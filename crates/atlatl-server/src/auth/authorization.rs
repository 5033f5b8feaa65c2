//! Parses the `Authorization` header (RFC 6750, 2.1).

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// No header, or one of another scheme, which says nothing here.
    #[error("the request brings no token")]
    NoneGiven,
    /// Two headers, of which one would have to be chosen, or one that is not of this form.
    #[error("the header Authorization is not of the form `Bearer TOKEN`")]
    Invalid,
}

/// The token in `values`, which are those of all headers `Authorization` of a request, without the
/// white space around them.
pub fn bearer<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
) -> Result<&'a str, AuthorizationError> {
    let mut values = values.into_iter();
    let value = values.next().ok_or(AuthorizationError::NoneGiven)?;
    if values.next().is_some() {
        return Err(AuthorizationError::Invalid);
    }
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(AuthorizationError::NoneGiven);
    }
    let token = str::from_utf8(rest).map_err(|_| AuthorizationError::Invalid)?;
    let token = token.trim_start_matches(' ');
    if is_token(token) { Ok(token) } else { Err(AuthorizationError::Invalid) }
}

/// `b64token` of RFC 6750.
fn is_token(text: &str) -> bool {
    let unpadded = text.trim_end_matches('=');
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !unpadded.is_empty() && unpadded.bytes().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<String, AuthorizationError> {
        bearer(values.iter().map(|value| value.as_bytes())).map(str::to_owned)
    }

    #[test]
    fn one_header_with_one_token_is_read() {
        for good in ["Bearer a.b-c_d~e+f/g==", "bearer a", "BEARER    a", "bEaReR 0="] {
            let token = good.rsplit(' ').next().expect("a token");
            assert_eq!(of(&[good]).as_deref(), Ok(token), "{good}");
        }
    }

    #[test]
    fn other_schemes_say_nothing() {
        for other in ["", "Basic YTpi", "Digest a=\"b\"", "Bearer\ta", "Bearera", " Bearer a", "é"]
        {
            assert_eq!(of(&[other]), Err(AuthorizationError::NoneGiven), "{other}");
        }
        assert_eq!(of(&[]), Err(AuthorizationError::NoneGiven));
    }

    #[test]
    fn what_is_not_exactly_one_token_is_refused() {
        let bad = [
            "Bearer",
            "Bearer ",
            "Bearer a b",
            "Bearer a ",
            "Bearer \ta",
            "Bearer =",
            "Bearer a=b",
            "Bearer a,b",
            "Bearer \"a\"",
            "Bearer é",
            "Bearer a\n",
            "Bearer a\0",
        ];
        for bad in bad {
            assert_eq!(of(&[bad]), Err(AuthorizationError::Invalid), "{bad:?}");
        }
        assert_eq!(of(&["Bearer a", "Bearer a"]), Err(AuthorizationError::Invalid));
        assert_eq!(of(&["Bearer a", "Basic a"]), Err(AuthorizationError::Invalid));
        assert_eq!(bearer([&b"Bearer \xff"[..]]), Err(AuthorizationError::Invalid));
    }
}
