//! Embedder selection by configuration, and the addresses of embedding endpoints.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "local")]
use super::manifest::{installed_models, selected_model};

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
    /// `auto`: the installed model, or `none` if there is none.
    Auto,
    /// `none`: no vectors; search by words alone.
    None,
    /// `openai:{url}#{model}`: an endpoint with OpenAI's embeddings API.
    OpenAi {
        /// The address of the endpoint.
        endpoint: EmbeddingEndpoint,
        /// The name of the model there.
        model: String,
    },
    /// `local:{directory}`: a model on this machine.
    Local {
        /// The directory with the model's files.
        directory: PathBuf,
    },
}

/// Why a text does not select an embedder.
///
/// The message does not repeat the text, since people put passwords into addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEmbedderChoice {
    /// It begins with none of the keywords.
    #[error("an embedder is `auto`, `none`, `openai:{{url}}#{{model}}` or `local:{{directory}}`")]
    Unknown,
    /// The `#` or the model's name is missing.
    #[error("the model's name is missing: `openai:{{url}}#{{model}}`")]
    NoModel,
    /// The model's name contains control characters.
    #[error("the model's name has control characters")]
    Model,
    /// The directory after `local:` is missing.
    #[error("the model's directory is missing: `local:{{directory}}`")]
    NoDirectory,
    /// The URL is not an allowed endpoint.
    #[error("invalid endpoint URL")]
    EmbeddingEndpoint(#[from] InvalidEndpoint),
}

impl EmbedderChoice {
    /// Replaces `auto` by the first usable model in the subdirectories of `directories`, see
    /// `installed_models`. If no model is usable it is the first one, so that its use says why; if
    /// there is none, or the program was built without local models, it is `none`.
    #[must_use]
    pub fn resolve(
        self,
        #[cfg_attr(not(feature = "local"), expect(unused_variables, reason = "for local models"))]
        directories: &[PathBuf],
    ) -> Self {
        match self {
            #[cfg(feature = "local")]
            Self::Auto => match selected_model(installed_models(directories)) {
                Some(model) => Self::Local { directory: model.directory },
                None => Self::None,
            },
            #[cfg(not(feature = "local"))]
            Self::Auto => Self::None,
            other => other,
        }
    }
}

impl FromStr for EmbedderChoice {
    type Err = InvalidEmbedderChoice;

    fn from_str(text: &str) -> Result<Self, InvalidEmbedderChoice> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        match text.split_once(':') {
            Some(("local", "")) => Err(InvalidEmbedderChoice::NoDirectory),
            Some(("local", directory)) => Ok(Self::Local { directory: directory.into() }),
            Some(("openai", rest)) => {
                // An endpoint has no URL fragment, so the first `#` separates the model.
                let (url, model) = rest.split_once('#').ok_or(InvalidEmbedderChoice::NoModel)?;
                if model.trim().is_empty() {
                    return Err(InvalidEmbedderChoice::NoModel);
                }
                if model.contains(char::is_control) {
                    return Err(InvalidEmbedderChoice::Model);
                }
                Ok(Self::OpenAi { endpoint: url.parse()?, model: model.to_owned() })
            }
            _ => Err(InvalidEmbedderChoice::Unknown),
        }
    }
}

impl fmt::Display for EmbedderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::OpenAi { endpoint, model } => write!(f, "openai:{endpoint}#{model}"),
            Self::Local { directory } => write!(f, "local:{}", directory.display()),
        }
    }
}

/// The base address of an embedding service, such as `https://models.example/v1`.
///
/// Only `https`, or `http` on this machine, because memories and a key are sent to it. It is not a
/// general URL: only forms that every parser reads the same way are accepted, so that the host that
/// is checked here is the host that is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmbeddingEndpoint(String);

/// Why a text is not an endpoint address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    /// The scheme is neither `https://` nor `http://`.
    #[error("it does not begin with `https://`")]
    Scheme,
    /// Plain HTTP to another machine.
    #[error("`http://` is for this machine only (localhost, 127.0.0.1, [::1]); use `https://`")]
    Plain,
    /// A user or a password in the address.
    #[error("it contains a user name or password; configure the key separately")]
    Credentials,
    /// The host is missing or not plain ASCII, or the port is not valid.
    #[error("its host or port is not valid")]
    Host,
    /// A query, a fragment, white space or any other character that is not part of a plain path.
    #[error("its path has characters other than letters, digits and `/-._~%`")]
    Path,
}

impl EmbeddingEndpoint {
    /// Returns the address without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EmbeddingEndpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidEndpoint::Scheme)?;
        let encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(InvalidEndpoint::Scheme),
        };
        // Anywhere in the address: a parser that reads `\` as `/` must not find another host.
        if rest.contains('@') {
            return Err(InvalidEndpoint::Credentials);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host(authority).ok_or(InvalidEndpoint::Host)?;
        if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%".contains(&b)) {
            return Err(InvalidEndpoint::Path);
        }
        if !encrypted && !is_this_machine(host) {
            return Err(InvalidEndpoint::Plain);
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// Returns the host of `host`, `host:port`, `[v6]` or `[v6]:port`.
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
        // `u16` would also accept a `+`.
        Some(port) if !port.bytes().all(|b| b.is_ascii_digit()) => None,
        Some(port) => port.parse::<u16>().ok().map(|_| host),
        None => Some(host),
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for EmbeddingEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
