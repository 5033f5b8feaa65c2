//! Logging in at remote MCP servers, and staying logged in.
//!
//! [`login`] finds the authorization server that an MCP server names, checks it, sends a person
//! there and keeps the tokens. [`ServerLogin`] gives them out, refreshed where they are about to
//! expire: one refresh at a time among all processes of a person.
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
//! if let Some(bearer) = logins.of(&request.server).bearer().await? {
//!     println!("Authorization: <{} bytes>", bearer.header().len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Discovery, PKCE and the exchange of the code are rmcp's. What a server says is never trusted:
//! every URL passes [a policy](Rule) before it is fetched or shown, redirects do not leave their
//! origin, answers are bounded. Nothing here reads the environment or a terminal.

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
pub use callback::{Callback, read_callback};
pub use error::LoginError;
pub use http_transport::{Carried, Carrier, CarryError, Exchange, Internet, Reach};
pub use logins::{Forgotten, Login, Logins};
pub use session::ServerLogin;

pub use self::error::{Refusal, Rule};
pub use self::token::{Bearer, Secret};
