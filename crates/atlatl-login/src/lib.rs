//! OAuth login at remote MCP servers, with stored and refreshed tokens.
//!
//! [`login`] discovers and checks the authorization server of an MCP server, sends the person to it,
//! and stores the tokens. [`ServerLogin`] returns them, refreshed before they expire: one refresh at a
//! time among all processes of the person.
//!
//! ```no_run
//! # async fn run() -> Result<(), atlatl_login::LoginError> {
//! use atlatl_login::{LoginRequest, Logins, login};
//!
//! let logins = Logins::at("/home/me/.local/share/atlatl/logins");
//! let server = "https://mcp.example.com/mcp".parse().expect("a URL");
//! let request = LoginRequest::new(server);
//! login(&logins, &request, |url| println!("open {url}")).await?;
//!
//! if let Some(bearer) = logins.for_server(&request.server).bearer().await? {
//!     println!("Authorization: <{} bytes>", bearer.header().len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! rmcp implements discovery, PKCE and the code exchange. Servers are untrusted: every URL must satisfy
//! [the rules](Rule) before it is fetched or opened, redirects do not leave their origin, and responses
//! are limited in size. Nothing here reads the environment or a terminal.

mod authorize;
mod callback;
mod error;
mod http_transport;
mod logins;
mod session;
mod ssrf_guard;
mod token;
mod token_store;

pub use authorize::{LoginRequest, login};
pub use callback::{Callback, parse_callback};
pub use error::{LoginError, Rule, RuleViolation};
pub use http_transport::{
    HttpTransport, NetworkTransport, TransportError, TransportFuture, TransportRequest,
};
pub use logins::{Login, Logins};
pub use session::{LogoutOutcome, ServerLogin};
pub use ssrf_guard::Reach;
pub use token::{Bearer, Secret};
