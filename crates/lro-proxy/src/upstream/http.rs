//! HTTP: a server somewhere else, reached at one URL.
//!
//! [`Remote`] sends a request and says what is wrong with the answer; `reading` cuts an answer into
//! messages; `link` is one client's conversation with it, in whichever era.

mod backoff;
mod client;
mod client_session;
mod credentials;
mod endpoint;
mod error;
mod header_params;
mod inbound;
mod request;
mod response_reader;
mod session_state;

pub(crate) use client::Ask;
pub use client::{Remote, RemoteOptions};
pub(crate) use client_session::HttpSession;
pub use credentials::{Credentials, Presented};
pub use endpoint::{Endpoint, EndpointError};
pub use error::UpstreamError;
pub(crate) use header_params::param_headers;
pub(crate) use inbound::{Gathering, InboundMessage};
pub(crate) use response_reader::{Form, ResponseReader};
