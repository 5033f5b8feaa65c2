//! The configuration files of MCP clients, changed so that their servers run behind the proxy, and
//! changed back.
//!
//! Texts in, texts out: nothing here touches a file. A change is made of small edits in place, so that
//! comments, order, white space and unknown keys stay; what was changed is written down in a
//! [`Journal`], and [`uninstall`] gives the bytes back, also where the file was edited in between.
//!
//! ```
//! use atlatl_lro::clients::{CLIENTS, Wish, install, uninstall};
//!
//! let place = CLIENTS.iter().find(|client| client.name == "cursor").unwrap().place.clone();
//! let before = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"]}}}"#;
//! let installed = install(before, &place, &Wish::new("atlatl")).unwrap();
//! assert_eq!(
//!     installed.text,
//!     r#"{"mcpServers": {"files": {"command": "atlatl", "args": ["proxy", "--", "npx", "-y", "server"]}}}"#,
//! );
//! assert_eq!(uninstall(&installed.text, &place, &installed.journal).unwrap(), before);
//! ```

mod client;
mod edit;
mod entry;
mod install;
mod launch_spec;
mod repair;
mod syntax_tree;
mod undo_log;
mod uninstall;

pub use client::{CLIENTS, Client, Folder, Home, Place, Scope, Shape, UrlTransport};
pub use entry::{Entry, Kind, entries, own_arguments};
pub use install::{Installed, Wish, install, wrappable_urls};
pub use launch_spec::{Launch, launches};
pub use repair::{Repaired, repair};
pub use syntax_tree::{Broken, Notation};
pub use undo_log::{Added, Journal, Replaced, Wrapped};
pub use uninstall::uninstall;
