//! HTTP: a server somewhere else, reached at one URL.
//!
//! [`Remote`] sends a request and says what is wrong with the answer; `reading` cuts an answer into
//! messages; `link` is one client's conversation with it, in whichever era.

mod arrived;
mod credentials;
mod endpoint;
mod fault;
mod greeted;
mod link;
mod outgoing;
mod param;
mod reading;
mod remote;
mod waiting;

pub(crate) use arrived::{Arrived, Gathering};
pub use credentials::{Credentials, Presented};
pub use endpoint::{Endpoint, EndpointError};
pub use fault::Fault;
pub(crate) use link::Link;
pub(crate) use param::param_headers;
pub(crate) use reading::{Form, Reading};
pub(crate) use remote::Ask;
pub use remote::{Remote, RemoteOptions};
