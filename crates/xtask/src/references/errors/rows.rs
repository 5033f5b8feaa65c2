//! The rows of the errors reference. Names are held against the code, meanings are written here.

/// Class, meaning, help.
pub(super) const CLASSES: &[(&str, &str, &str)] = &[
    (
        "arguments",
        "An argument is missing, unknown, of another type, or contradicts another.",
        "The hint says what would be right.",
    ),
    (
        "syntax",
        "The filter, statement, pattern or recipe cannot be understood, or asks for what is \
         not offered: files, environment, clock, chance, writing.",
        "Correct it; give the present time as a parameter. Wrong columns are answered with \
         the nearest ones.",
    ),
    ("runtime", "It failed on the data.", "Test for fields that some records lack."),
    (
        "time",
        "It ran longer than `query.wall_ms`.",
        "Select fewer records first; end every generator.",
    ),
    (
        "memory",
        "It needed more than `query.memory_bytes`.",
        "One record at a time; fewer fields before sorting, grouping, joining.",
    ),
    (
        "output",
        "Its first value alone is larger than `query.output_bytes`.",
        "Select single fields.",
    ),
    ("depth", "It nested or recursed too deeply.", "Less nesting; end every recursion."),
    ("expired", "The result has had its time. Final.", "Make the call that returned it again."),
    (
        "not_found",
        "There is no such result for this project, no such part of it, or no such memory.",
        "The reference of the descriptor; the call again; an id as `list_memories` gives it.",
    ),
    (
        "unavailable",
        "Not the question's fault: all workers busy, the disk, an engine that is not offered.",
        "Ask again; then a recipe, search or range.",
    ),
    (
        "quota",
        "There are as many memories as the tenant may have.",
        "Delete some, or ask the server's administrator for a larger quota.",
    ),
    (
        "storage",
        "The store of memories failed. Nothing was stored, unless it says that this is unsure.",
        "What the server wrote to its standard error; `atlatl doctor`.",
    ),
    (
        "refused",
        "A reference as an argument belongs to another server's result.",
        "`proxy.references = \"any\"`, if you want that.",
    ),
    (
        "size",
        "The references of one call come to more than 16 MiB.",
        "Pass a part: a reference, a vertical bar and a jq filter.",
    ),
];

/// Name in the code, status, meaning.
pub(super) const STATUSES: &[(&str, &str, &str)] = &[
    (
        "BAD_REQUEST",
        "400",
        "The body is no JSON or no request, an argument is wrong, or a header says something \
         else than the body.",
    ),
    ("UNAUTHORIZED", "401", "A bearer token of `server.auth` is needed."),
    (
        "FORBIDDEN",
        "403",
        "`Host` or `Origin` is not one that is answered (`server.allowed_hosts`, \
         `server.allowed_origins`).",
    ),
    ("NOT_FOUND", "404", "There is no such path, method, session, memory or result."),
    (
        "METHOD_NOT_ALLOWED",
        "405",
        "The path does not know the method; `Allow` names those of `/mcp`.",
    ),
    ("REQUEST_TIMEOUT", "408", "The body did not arrive within ten seconds."),
    ("GONE", "410", "The stored result has had its time."),
    ("PAYLOAD_TOO_LARGE", "413", "The body is too long; `detail` says how long it may be."),
    ("UNSUPPORTED_MEDIA_TYPE", "415", "A body is `application/json`."),
    ("RANGE_NOT_SATISFIABLE", "416", "The range lies behind the end of the stored result."),
    ("UNPROCESSABLE_ENTITY", "422", "The memory is not one; `detail` says which field."),
    (
        "TOO_MANY_REQUESTS",
        "429",
        "The tenant asks more often, or more at a time, than it may; `Retry-After` says when.",
    ),
    (
        "INTERNAL_SERVER_ERROR",
        "500",
        "Something broke here; the server's standard error says more.",
    ),
    ("BAD_GATEWAY", "502", "The server behind the proxy cannot be started or reached, or ended."),
    (
        "SERVICE_UNAVAILABLE",
        "503",
        "The store is busy or does not answer, or the server is at capacity; try again. Where a change may \
         be there or not, `detail` says so: look first.",
    ),
    (
        "INSUFFICIENT_STORAGE",
        "507",
        "The store cannot write: the disk is full or broken, or the tenant has all the memories it may.",
    ),
];

/// Statuses that are no error.
pub(super) const SUCCESSES: &[&str] =
    &["ACCEPTED", "CREATED", "NO_CONTENT", "OK", "PARTIAL_CONTENT"];
