//! Selects the embedder that the configuration names.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Which embedder the configuration asks for, as it is written there.
///
/// ```
/// use atlatl_memory::embed::EmbedderChoice;
///
/// let choice: EmbedderChoice = "openai:https://models.example/v1#bge-small".parse()?;
/// let EmbedderChoice::OpenAi { endpoint, model } = &choice else { panic!() };
/// assert_eq!((endpoint.as_str(), model.as_str()), ("https://models.example/v1", "bge-small"));
/// assert_eq!(choice.to_string(), "openai:https://models.example/v1#bge-small");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmbedderChoice {
    /// `none`: memories have no vectors, and search is by words alone.
    None,
    /// `openai:{url}#{model}`: an endpoint that speaks OpenAI's embeddings API.
    OpenAi {
        /// Where it is.
        endpoint: Endpoint,
        /// The model's name there.
        model: String,
    },
    /// `local:{directory}`: a model on this machine.
    Local {
        /// Where its files are.
        directory: PathBuf,
    },
}

/// Why a text is no choice of an embedder.
///
/// It does not repeat the text: people put passwords into addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAChoice {
    /// It begins with none of the three words.
    #[error("an embedder is `none`, `openai:{{url}}#{{model}}` or `local:{{directory}}`")]
    Unknown,
    /// No `#`, or nothing behind it.
    #[error("the model's name is missing: `openai:{{url}}#{{model}}`")]
    NoModel,
    /// A model's name with control characters in it.
    #[error("the model's name has control characters")]
    Model,
    /// Nothing behind `local:`.
    #[error("the model's directory is missing: `local:{{directory}}`")]
    NoDirectory,
    /// The URL is none that we would send texts to.
    #[error("the endpoint's URL cannot be used")]
    Endpoint(#[from] NotAnEndpoint),
}

impl FromStr for EmbedderChoice {
    type Err = NotAChoice;

    fn from_str(text: &str) -> Result<Self, NotAChoice> {
        if text == "none" {
            return Ok(Self::None);
        }
        match text.split_once(':') {
            Some(("local", "")) => Err(NotAChoice::NoDirectory),
            Some(("local", directory)) => Ok(Self::Local { directory: directory.into() }),
            Some(("openai", rest)) => {
                // A URL with a fragment addresses no endpoint, so the first `#` is ours.
                let (url, model) = rest.split_once('#').ok_or(NotAChoice::NoModel)?;
                if model.trim().is_empty() {
                    return Err(NotAChoice::NoModel);
                }
                if model.contains(char::is_control) {
                    return Err(NotAChoice::Model);
                }
                Ok(Self::OpenAi { endpoint: url.parse()?, model: model.to_owned() })
            }
            _ => Err(NotAChoice::Unknown),
        }
    }
}

impl fmt::Display for EmbedderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::OpenAi { endpoint, model } => write!(f, "openai:{endpoint}#{model}"),
            Self::Local { directory } => write!(f, "local:{}", directory.display()),
        }
    }
}

// --- Endpoint: the address of an embedding service to which texts and a key may be sent.

/// The base address of an embedding service, such as `https://models.example/v1`.
///
/// `https`, or `http` on this machine: what is sent are a user's memories and a key. Not a general
/// URL: only what every parser reads the same way, so that the host which is checked here is the
/// host which is called later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

/// Why a text is no address of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnEndpoint {
    /// Neither `https://` nor `http://`.
    #[error("it does not begin with `https://`")]
    Scheme,
    /// Plain HTTP to another machine.
    #[error("`http://` is for this machine only (localhost, 127.0.0.1, [::1]); use `https://`")]
    Plain,
    /// A user or a password in the address.
    #[error("it has a user or password in it; the key is configured separately")]
    Credentials,
    /// No host, or one that is not plain ASCII, or a port that is none.
    #[error("its host or port is not valid")]
    Host,
    /// A query, a fragment, white space or anything else that is not a plain path.
    #[error("its path has characters other than letters, digits and `/-._~%`")]
    Path,
}

impl Endpoint {
    /// The address, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let (scheme, rest) = text.split_once("://").ok_or(NotAnEndpoint::Scheme)?;
        let encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(NotAnEndpoint::Scheme),
        };
        // Wherever it stands: a parser that takes `\` for `/` must not find another host.
        if rest.contains('@') {
            return Err(NotAnEndpoint::Credentials);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host(authority).ok_or(NotAnEndpoint::Host)?;
        if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%".contains(&b)) {
            return Err(NotAnEndpoint::Path);
        }
        if !encrypted && !is_this_machine(host) {
            return Err(NotAnEndpoint::Plain);
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host(authority: &str) -> Option<&str> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
        (host, port)
    } else {
        let (host, port) =
            authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
        let is_name = !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        (is_name.then_some(host)?, port)
    };
    match port {
        // `u16` would also read a `+`.
        Some(port) if !port.bytes().all(|b| b.is_ascii_digit()) => None,
        Some(port) => port.parse::<u16>().ok().map(|_| host),
        None => Some(host),
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
