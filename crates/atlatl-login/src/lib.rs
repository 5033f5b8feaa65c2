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

mod address;
mod authorize;
mod bearer;
mod callback;
mod carrier;
mod challenge;
mod discovery;
mod error;
mod folder;
mod guarded;
mod kept;
mod listener;
mod lock;
mod logins;
mod page;
mod policy;
mod private;
mod refresh;
mod resolver;
mod revoke;
mod rule;
mod server;
mod session;
mod shown;
mod token;

pub use authorize::{LoginRequest, login};
pub use bearer::{Bearer, Secret};
pub use callback::{Callback, read_callback};
pub use carrier::{Carried, Carrier, CarryError, Exchange, Internet, Reach};
pub use error::LoginError;
pub use logins::{Forgotten, Login, Logins};
pub use rule::{Refusal, Rule};
pub use session::ServerLogin;
