//! Selects the embedder that the configuration names.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::endpoint::{Endpoint, NotAnEndpoint};

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
