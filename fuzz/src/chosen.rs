//! Chosen: a token of which every part is chosen, and with it whether it is good.
//!
//! What is expected of a token is known from the choices alone: nothing here reads one. The first
//! choice is the right one everywhere, so that short inputs are good tokens.

use atlatl_server::auth::{KeySet, AuthScope, Scopes};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use serde_json::json;

use crate::authority::{AUDIENCE, AUTHORITY, ISSUER, NOW, Named};

/// A longer token is none.
const LONGEST: usize = 8 * 1024;

/// Every choice says whether it is right.
#[derive(Debug, Arbitrary)]
pub struct Token<'a> {
    key: Key,
    alg: Said<'a, ()>,
    typ: Said<'a, u8>,
    kid: Said<'a, ()>,
    refused: Option<u8>,
    iss: Said<'a, ()>,
    aud: Said<'a, Audience<'a>>,
    sub: Said<'a, Called<'a>>,
    tenant: Said<'a, Called<'a>>,
    exp: Said<'a, u16>,
    nbf: Said<'a, u16>,
    iat: Said<'a, u16>,
    scopes: Granted<'a>,
    /// A name that means nothing here, in the header and among the claims.
    further: Option<Odd<'a>>,
    layout: Layout,
    /// The only key of the set, or one of several.
    only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Arbitrary)]
enum Key {
    Ed25519,
    P256,
    /// A good signature, but not of the authority.
    Stranger,
}

/// A member of an object.
#[derive(Debug, Arbitrary)]
enum Said<'a, R> {
    Right(R),
    Wrong(R, Wrong),
    Missing,
    Odd(Odd<'a>),
    Twice(R, bool),
}

/// In which way it is wrong.
#[derive(Debug, Arbitrary)]
enum Wrong {
    One(u16),
    Empty,
    Case,
    Behind(char),
}

/// What is neither a text nor a whole number.
#[derive(Debug, Arbitrary)]
pub enum Odd<'a> {
    Null,
    Bool(bool),
    Fraction(i32),
    Exponent,
    Huge,
    List(Vec<&'a str>),
    Object,
}

#[derive(Debug, Arbitrary)]
enum Audience<'a> {
    One,
    Other,
    Among(Vec<Odd<'a>>, Vec<&'a str>),
}

/// A tenant or a subject.
#[derive(Debug, Arbitrary)]
struct Called<'a>(&'a str, bool);

/// Which scopes, and in which form.
#[derive(Debug, Arbitrary)]
enum Granted<'a> {
    AuthScope(u8, Vec<&'a str>),
    Scp(u8, Vec<&'a str>),
    List(u8, Vec<Odd<'a>>),
    /// The one of the standard counts.
    Both(u8, u8),
    /// What has another form grants nothing.
    Odd(Odd<'a>, u8),
    None,
    Twice(u8),
}

#[derive(Debug, Arbitrary)]
struct Layout {
    turned: u8,
    spaced: bool,
    escaped: bool,
    ending: Ending,
}

#[derive(Debug, Arbitrary)]
enum Ending {
    Good,
    Listed,
    Unended,
    Doubled,
    Behind(u8),
}

impl Odd<'_> {
    /// As it is written.
    pub fn json(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(yes) => yes.to_string(),
            Self::Fraction(whole) => format!("{whole}.5"),
            Self::Exponent => "18e8".to_owned(),
            Self::Huge => "99999999999999999999".to_owned(),
            Self::List(texts) => {
                // What it says is never what is wanted, were it not in a list.
                let texts: Vec<_> = texts.iter().map(|text| format!("-{text}")).collect();
                json!(texts).to_string()
            }
            Self::Object => "{\"a\":1}".to_owned(),
        }
    }
}

/// The members of an object that is written, and whether all of them are right.
struct Members {
    all: Vec<(&'static str, String)>,
    right: bool,
}

impl Members {
    fn new() -> Self {
        Self { all: Vec::new(), right: true }
    }

    /// Puts a member in whose right value is `right`, and a wrong one `wrong`; whether it may be left
    /// out is said. Both are JSON.
    fn put<R>(
        &mut self,
        name: &'static str,
        said: &Said<'_, R>,
        right: impl Fn(&R) -> String,
        wrong: impl Fn(&R, &Wrong) -> String,
        may_be_missing: bool,
    ) {
        match said {
            Said::Right(value) => self.all.push((name, right(value))),
            Said::Wrong(value, how) => {
                self.all.push((name, wrong(value, how)));
                self.right = false;
            }
            Said::Missing => self.right &= may_be_missing,
            Said::Odd(odd) => {
                self.all.push((name, odd.json()));
                self.right = false;
            }
            Said::Twice(value, same) => {
                let other = if *same { right(value) } else { wrong(value, &Wrong::One(0)) };
                self.all.extend([(name, right(value)), (name, other)]);
                self.right = false;
            }
        }
    }

    fn json(&mut self, layout: &Layout) -> String {
        let turn = usize::from(layout.turned) % self.all.len().max(1);
        self.all.rotate_left(turn);
        let spelled = |(n, (name, value)): (usize, &(&str, String))| {
            // The second of two is spelled otherwise, and is the same.
            let name = if layout.escaped && n % 2 == 1 {
                format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..])
            } else {
                (*name).to_owned()
            };
            if layout.spaced {
                format!(" \"{name}\" :\n{value}\t")
            } else {
                format!("\"{name}\":{value}")
            }
        };
        let members: Vec<_> = self.all.iter().enumerate().map(spelled).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// A text that is not `right`, as JSON.
fn not(right: &str, how: &Wrong, others: &[&str]) -> String {
    let wrong = match how {
        Wrong::One(n) => others[usize::from(*n) % others.len()].to_owned(),
        Wrong::Empty => String::new(),
        Wrong::Case => {
            let mut letters: Vec<char> = right.chars().collect();
            let first = letters.iter_mut().find(|c| c.is_ascii_alphabetic()).expect("a letter");
            *first = char::from(*first as u8 ^ 0x20);
            letters.into_iter().collect()
        }
        Wrong::Behind(c) => format!("{right}{c}"),
    };
    json!(wrong).to_string()
}

impl Key {
    fn alg(self) -> (&'static str, Algorithm) {
        match self {
            Self::Ed25519 => ("EdDSA", Algorithm::EdDSA),
            Self::P256 | Self::Stranger => ("ES256", Algorithm::ES256),
        }
    }

    fn kid(self) -> &'static str {
        if self == Self::Ed25519 { "ed25519" } else { "p256" }
    }

    fn signs(self) -> &'static EncodingKey {
        match self {
            Self::Ed25519 => &AUTHORITY.ed25519,
            Self::P256 => &AUTHORITY.p256,
            Self::Stranger => &AUTHORITY.stranger,
        }
    }
}

impl Called<'_> {
    /// A name of at most `longest` bytes that is good.
    fn good(&self, longest: usize) -> String {
        // A colon or more behind the first letter: it is no key's.
        let mut name = format!("u{}", self.0.replace(char::is_control, "_"));
        if self.1 {
            name = name.repeat(longest / name.len() + 1);
        }
        name.truncate(name.floor_char_boundary(longest));
        name
    }

    fn bad(&self, longest: usize, key: bool, how: &Wrong) -> String {
        let name = match how {
            Wrong::One(n) if key && n % 2 == 0 => format!("key:{}", self.good(longest / 2)),
            Wrong::One(n) => {
                let mut name = self.good(longest);
                let at = name.floor_char_boundary(usize::from(*n) % name.len());
                name.insert(at, ['\0', '\n', '\u{7f}', '\u{85}'][usize::from(*n) % 4]);
                name
            }
            Wrong::Empty => String::new(),
            Wrong::Case | Wrong::Behind(_) => "x".repeat(longest + 1),
        };
        json!(name).to_string()
    }
}

/// The words of the scopes of `mask`.
fn words(mask: u8) -> Vec<&'static str> {
    let chosen = AuthScope::ALL.into_iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1);
    chosen.map(|(_, scope)| scope.word()).collect()
}

fn scopes(mask: u8) -> Scopes {
    AuthScope::ALL.into_iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1).map(|(_, s)| s).collect()
}

impl Granted<'_> {
    /// Puts the claims in; what they grant.
    fn put(&self, claims: &mut Members) -> Scopes {
        // Words that are none of ours, with a sign that no word of ours has.
        let text = |mask: u8, more: &[&str]| {
            let more = more.iter().map(|word| format!("{word}*"));
            let all: Vec<_> = words(mask).into_iter().map(str::to_owned).chain(more).collect();
            json!(all.join(" ")).to_string()
        };
        // A word with a space in it is two.
        let hidden = |more: &[&str]| -> bool { more.iter().any(|word| word.contains("memory:")) };
        match self {
            Self::AuthScope(mask, more) | Self::Scp(mask, more) => {
                let name = if matches!(self, Self::AuthScope(..)) { "scope" } else { "scp" };
                let more: &[&str] = if hidden(more) { &[] } else { more };
                claims.all.push((name, text(*mask, more)));
                scopes(*mask)
            }
            Self::List(mask, more) => {
                let ours = words(*mask).into_iter().map(|word| json!(word).to_string());
                let all: Vec<_> = more.iter().map(Odd::json).chain(ours).collect();
                claims.all.push(("scp", format!("[{}]", all.join(","))));
                scopes(*mask)
            }
            Self::Both(mask, other) => {
                claims.all.extend([("scp", text(*other, &[])), ("scope", text(*mask, &[]))]);
                scopes(*mask)
            }
            Self::Odd(odd, other) => {
                claims.all.extend([("scope", odd.json()), ("scp", text(*other, &[]))]);
                Scopes::default()
            }
            Self::None => Scopes::default(),
            Self::Twice(mask) => {
                claims.all.extend([("scope", text(*mask, &[])), ("scope", text(7, &[]))]);
                claims.right = false;
                Scopes::default()
            }
        }
    }
}

impl Token<'_> {
    fn header(&self) -> Members {
        const TYPES: [&str; 5] =
            ["JWT", "at+jwt", "AT+JWT", "application/at+jwt", "Application/jwt"];
        const OTHERS: [&str; 4] = ["logout+jwt", "JWE", "application/", "text/jwt"];
        const REFUSED: [&str; 6] = ["crit", "b64", "jku", "jwk", "x5u", "x5c"];
        const ALGORITHMS: [&str; 9] =
            ["none", "HS256", "RS256", "PS256", "ES384", "ES512", "HS512", "None", "RSA-OAEP"];
        const KIDS: [&str; 4] = ["rsa", "p384", "../../dev/null", "rsa-rs256"];
        let mut header = Members::new();
        let (alg, kid) = (self.key.alg().0, self.key.kid());
        let text = |text: &str| json!(text).to_string();
        header.put("alg", &self.alg, |_| text(alg), |_, how| not(alg, how, &ALGORITHMS), false);
        let typ = |n: &u8| TYPES[usize::from(*n) % TYPES.len()];
        // Types are the same in either case.
        let wrong_typ = |_: &u8, how: &Wrong| match how {
            Wrong::Case => text("jwt "),
            how => not("JWT", how, &OTHERS),
        };
        header.put("typ", &self.typ, |n| text(typ(n)), wrong_typ, true);
        header.put("kid", &self.kid, |_| text(kid), |_, how| not(kid, how, &KIDS), self.only);
        if let Some(n) = self.refused {
            header.all.push((REFUSED[usize::from(n) % REFUSED.len()], "false".to_owned()));
            header.right = false;
        }
        header
    }

    /// The claims, and whom they name.
    fn claims(&self) -> (Members, Option<Named>) {
        let mut claims = Members::new();
        let text = |text: &str| json!(text).to_string();
        let issuers = ["https://login.example/", "http://login.example", "login.example"];
        let audiences = ["https://memory.example/mcp/", "https://memory.example", "*"];
        claims.put("iss", &self.iss, |_| text(ISSUER), |_, how| not(ISSUER, how, &issuers), false);
        let aud = |audience: &Audience<'_>| match audience {
            Audience::One => text(AUDIENCE),
            Audience::Other => text("https://other.example"),
            Audience::Among(odd, texts) => {
                let texts = texts.iter().map(|other| text(other)).chain([text(AUDIENCE)]);
                let all: Vec<_> = texts.chain(odd.iter().map(Odd::json)).collect();
                format!("[{}]", all.join(","))
            }
        };
        let wrong_aud = |audience: &Audience<'_>, how: &Wrong| {
            let wrong = not(AUDIENCE, how, &audiences);
            if matches!(audience, Audience::Among(..)) { format!("[{wrong},7]") } else { wrong }
        };
        claims.put("aud", &self.aud, aud, wrong_aud, false);
        let (subject, tenant) = (|it: &Called<'_>| it.good(200), |it: &Called<'_>| it.good(128));
        let wrong = |it: &Called<'_>, how: &Wrong| it.bad(200, true, how);
        claims.put("sub", &self.sub, |it| text(&subject(it)), wrong, false);
        let wrong = |it: &Called<'_>, how: &Wrong| it.bad(128, false, how);
        claims.put("tenant", &self.tenant, |it| text(&tenant(it)), wrong, false);
        // Clocks may differ by thirty seconds.
        let past = |_: &u16, how: &Wrong| match how {
            Wrong::One(seconds) => (NOW - 30 - i64::from(*seconds)).to_string(),
            Wrong::Empty => i64::MIN.to_string(),
            Wrong::Case => text(&(NOW + 300).to_string()),
            Wrong::Behind(_) => "-1".to_owned(),
        };
        claims.put(
            "exp",
            &self.exp,
            |ahead| (NOW - 29 + i64::from(*ahead)).to_string(),
            past,
            false,
        );
        let future = |_: &u16, how: &Wrong| match how {
            Wrong::One(seconds) => (NOW + 31 + i64::from(*seconds)).to_string(),
            Wrong::Empty => i64::MAX.to_string(),
            Wrong::Case => text("0"),
            Wrong::Behind(_) => u64::MAX.to_string(),
        };
        let began = |before: &u16| (NOW + 30 - i64::from(*before)).to_string();
        claims.put("nbf", &self.nbf, began, future, true);
        claims.put("iat", &self.iat, began, future, true);
        let scopes = self.scopes.put(&mut claims);
        let named = match (&self.tenant, &self.sub) {
            (Said::Right(tenant_is), Said::Right(subject_is)) => {
                Some((tenant(tenant_is), subject(subject_is), scopes))
            }
            _ => None,
        };
        (claims, named)
    }

    /// The token, and whom it lets in.
    pub fn signed(&self) -> (String, Option<Named>) {
        let mut header = self.header();
        let (mut claims, named) = self.claims();
        if let Some(odd) = &self.further {
            header.all.push(("x5t", odd.json()));
            claims.all.push(("nonce", odd.json()));
        }
        let right = header.right && claims.right && self.key != Key::Stranger;
        let head = header.json(&self.layout);
        let (payload, formed) = self.layout.ended(claims.json(&self.layout));
        let [head, payload] = [head, payload].map(|json| URL_SAFE_NO_PAD.encode(json));
        let message = format!("{head}.{payload}");
        let signature = crypto::sign(message.as_bytes(), self.key.signs(), self.key.alg().1);
        let token = format!("{message}.{}", signature.expect("a signature"));
        let good = right && formed && token.len() <= LONGEST;
        (token, good.then(|| named.expect("a right token names somebody")))
    }

    /// The keys that it is to be checked with, where they are not all of the authority's.
    pub fn only_key(&self) -> Option<KeySet> {
        let only = self.only.then(|| json!({"keys": [AUTHORITY.jwk(self.key.kid())]}))?;
        Some(KeySet::read(&only.to_string()).expect("a key set"))
    }
}

impl Layout {
    /// The payload with its ending, and whether it is an object then.
    fn ended(&self, mut payload: String) -> (String, bool) {
        match self.ending {
            Ending::Good => (payload, true),
            Ending::Listed => (format!("[{payload}]"), false),
            Ending::Unended => {
                payload.pop();
                (payload, false)
            }
            Ending::Doubled => (payload.repeat(2), false),
            Ending::Behind(byte) => {
                payload.push(char::from(byte));
                (payload, b" \t\r\n".contains(&byte))
            }
        }
    }
}
