//! A server at a URL, reached over HTTP.
//!
//! [`Remote`] sends requests and classifies failures, `response` splits a response into messages, and
//! `session` is the conversation of one client with the server.

mod client;
mod endpoint;
mod request;
mod response;
mod session;

pub(crate) use client::HttpRequest;
pub use client::{CredentialFuture, Credentials, Remote, RemoteOptions, UpstreamError};
pub use endpoint::{EndpointError, UpstreamEndpoint};
pub(crate) use request::param_headers;
pub(crate) use response::{BodyFormat, InboundMessage, MessageBuffer, ResponseReader};
pub(crate) use session::HttpSession;
