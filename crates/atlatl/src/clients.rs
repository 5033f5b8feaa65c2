//! Edits the configuration files of MCP clients so that their servers run behind the proxy, and undoes
//! these edits.
//!
//! All functions map texts to texts and touch no file. A change consists of small edits in place, so
//! that comments, order, white space and unknown keys stay. A [`Journal`] records the edits, and
//! [`uninstall`] restores the original bytes, even if the file was edited in between.
//!
//! ```
//! use atlatl_lro::clients::{CLIENTS, InstallOptions, install, uninstall};
//!
//! let place = CLIENTS.iter().find(|client| client.name == "cursor").unwrap().place.clone();
//! let before = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"]}}}"#;
//! let installed = install(before, &place, &InstallOptions::new("atlatl")).unwrap();
//! assert_eq!(
//!     installed.text,
//!     r#"{"mcpServers": {"files": {"command": "atlatl", "args": ["proxy", "--", "npx", "-y", "server"]}}}"#,
//! );
//! assert_eq!(uninstall(&installed.text, &place, &installed.journal).unwrap(), before);
//! ```

mod hooks;
mod install;
mod journal;
mod syntax_tree;
mod uninstall;

pub use self::hooks::{
    CAPTURE, HOOK_CLIENTS, HookClient, HookEntry, HookFormat, HookOutcome, has_own_hook,
    hook_commands, install_hooks, uninstall_hooks,
};
pub use self::install::{
    InstallOptions, InstallOutcome, LaunchSpec, install, launches, wrappable_urls,
};
pub use self::journal::{AddedEntry, Journal, ReplacedEntry, WrappedEntry};
pub use self::syntax_tree::{
    ConfigParseError, EntryKind, Notation, ServerEntry, entries, own_arguments,
};
pub use self::uninstall::{RepairOutcome, repair, uninstall};

/// The table of servers in a client's configuration file: where it is, and its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTable {
    /// The syntax of the file.
    pub notation: Notation,
    /// The keys that lead to the table of servers.
    pub servers: &'static [&'static str],
    /// How an entry spells a server's command.
    pub shape: CommandFormat,
    /// The transport of an entry with a `url` that declares none.
    pub url_transport: UrlTransport,
    /// The project whose servers the table contains, if a file of the user has a table per project. The
    /// project's directory is a key under `projects`.
    pub project: Option<String>,
}

impl ServerTable {
    /// All keys that lead to the table of servers.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let project = self.project.iter().flat_map(|project| ["projects", project]);
        project.chain(self.servers.iter().copied()).collect()
    }
}

/// How an entry spells a server's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFormat {
    /// `command` is a text and `args` a list.
    Separate,
    /// `command` is a list, the program first.
    Together,
}

/// The transport between a client and a server at a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlTransport {
    /// Streamable HTTP (2025-03-26 and later).
    StreamableHttp,
    /// The legacy transport HTTP+SSE (2024-11-05), which the proxy does not speak.
    Sse,
}

/// The scope of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigScope {
    /// The project in the working directory.
    Project,
    /// The user.
    User,
    /// The user, for the project in the working directory.
    Local,
}

/// The directory that a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseDir {
    /// The working directory.
    Project,
    /// The home directory.
    HomeLayout,
    /// The configuration directory of the platform: `~/.config`, on macOS `~/Library/Application Support`.
    Config,
    /// `~/.config` everywhere.
    DotConfig,
}

/// The layout of a home directory, which decides where configuration files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeLayout {
    /// `~/.config`.
    Linux,
    /// `~/Library/Application Support`.
    MacOs,
}

/// A configuration file of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The client's name on the command line.
    pub name: &'static str,
    /// The client's name for people.
    pub title: &'static str,
    /// The scope of the file.
    pub scope: ConfigScope,
    /// The directory that `path` is relative to.
    pub folder: BaseDir,
    /// The path of the file.
    pub path: &'static str,
    /// The table of servers in the file.
    pub place: ServerTable,
}

impl Client {
    /// The path from the home directory or the working directory.
    pub fn relative_path(&self, home: HomeLayout) -> String {
        match (self.folder, home) {
            (BaseDir::Project | BaseDir::HomeLayout, _) => self.path.to_owned(),
            (BaseDir::Config, HomeLayout::MacOs) => {
                format!("Library/Application Support/{}", self.path)
            }
            _ => format!(".config/{}", self.path),
        }
    }
}

const SERVERS: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
const VS_CODE: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["servers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
const ZED: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["context_servers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
const CODEX: ServerTable = ServerTable {
    notation: Notation::Toml,
    servers: &["mcp_servers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
/// Gemini CLI: `url` is an HTTP+SSE endpoint, `httpUrl` a streamable one.
const GEMINI: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: CommandFormat::Separate,
    url_transport: UrlTransport::Sse,
    project: None,
};
const OPENCODE: ServerTable = ServerTable {
    notation: Notation::Json,
    servers: &["mcp"],
    shape: CommandFormat::Together,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};

const fn row(
    name: &'static str,
    title: &'static str,
    scope: ConfigScope,
    folder: BaseDir,
    path: &'static str,
    place: ServerTable,
) -> Client {
    Client { name, title, scope, folder, path, place }
}

/// Every configuration file that Atlatl looks for.
pub const CLIENTS: &[Client] = &[
    row("claude-code", "Claude Code", ConfigScope::Project, BaseDir::Project, ".mcp.json", SERVERS),
    row(
        "claude-code",
        "Claude Code",
        ConfigScope::User,
        BaseDir::HomeLayout,
        ".claude.json",
        SERVERS,
    ),
    row(
        "claude-code",
        "Claude Code",
        ConfigScope::Local,
        BaseDir::HomeLayout,
        ".claude.json",
        SERVERS,
    ),
    row(
        "claude-desktop",
        "Claude Desktop",
        ConfigScope::User,
        BaseDir::Config,
        "Claude/claude_desktop_config.json",
        SERVERS,
    ),
    row("cursor", "Cursor", ConfigScope::Project, BaseDir::Project, ".cursor/mcp.json", SERVERS),
    row("cursor", "Cursor", ConfigScope::User, BaseDir::HomeLayout, ".cursor/mcp.json", SERVERS),
    row("vscode", "VS Code", ConfigScope::Project, BaseDir::Project, ".vscode/mcp.json", VS_CODE),
    row("vscode", "VS Code", ConfigScope::User, BaseDir::Config, "Code/User/mcp.json", VS_CODE),
    row(
        "windsurf",
        "Windsurf",
        ConfigScope::User,
        BaseDir::HomeLayout,
        ".codeium/windsurf/mcp_config.json",
        SERVERS,
    ),
    row("zed", "Zed", ConfigScope::Project, BaseDir::Project, ".zed/settings.json", ZED),
    row("zed", "Zed", ConfigScope::User, BaseDir::DotConfig, "zed/settings.json", ZED),
    row("codex", "Codex", ConfigScope::User, BaseDir::HomeLayout, ".codex/config.toml", CODEX),
    row(
        "gemini",
        "Gemini CLI",
        ConfigScope::Project,
        BaseDir::Project,
        ".gemini/settings.json",
        GEMINI,
    ),
    row(
        "gemini",
        "Gemini CLI",
        ConfigScope::User,
        BaseDir::HomeLayout,
        ".gemini/settings.json",
        GEMINI,
    ),
    row("opencode", "opencode", ConfigScope::Project, BaseDir::Project, "opencode.json", OPENCODE),
    row(
        "opencode",
        "opencode",
        ConfigScope::User,
        BaseDir::DotConfig,
        "opencode/opencode.json",
        OPENCODE,
    ),
];
