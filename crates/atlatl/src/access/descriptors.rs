//! Descriptors: how many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More would serve nobody: each waits for the same few threads.
const MAX_OPEN_FILES: u64 = 65_536;

/// Lets this process have as many open as it is allowed to. What it starts inherits that, so that only
/// who starts nothing foreign may ask for it.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(MAX_OPEN_FILES, |maximum| maximum.min(MAX_OPEN_FILES));
    if current.is_some_and(|current| current < wanted) {
        // As many as before do too, only not for as many clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// How many of them connections of clients may be: files and engines need some too.
pub(crate) fn for_clients() -> usize {
    let open = getrlimit(Resource::Nofile)
        .current
        .map_or(MAX_OPEN_FILES, |current| current.min(MAX_OPEN_FILES));
    usize::try_from(open / 4 * 3).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_three_quarters_of_what_may_be_open() {
        let before = for_clients();
        raise();
        let open = getrlimit(Resource::Nofile);
        assert!(
            open.current >= open.maximum.map(|maximum| maximum.min(MAX_OPEN_FILES)),
            "{open:?}"
        );
        let clients = for_clients();
        let open = usize::try_from(open.current.unwrap()).unwrap();
        assert!(clients >= before && clients < open && clients >= open / 2, "{clients} of {open}");
    }
}
