//! Client: which programs there are, where their configuration lies and what it looks like.

use crate::clients::syntax_tree::Notation;

/// Where in a file servers stand, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// How the file is written.
    pub notation: Notation,
    /// The keys that lead to the table of servers.
    pub servers: &'static [&'static str],
    /// How a server's command is written.
    pub shape: Shape,
    /// The transport of an entry with a `url` that declares none.
    pub url_transport: UrlTransport,
    /// The project whose servers they are, where a file of the user's has a table for each: its
    /// directory is a key under `projects`.
    pub project: Option<String>,
}

impl Place {
    /// All keys that lead to the table of servers.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let project = self.project.iter().flat_map(|project| ["projects", project]);
        project.chain(self.servers.iter().copied()).collect()
    }
}

/// How a server's command is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `command` is a text and `args` a list.
    Separate,
    /// `command` is a list, the program first.
    Together,
}

/// How a client speaks to a server at a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlTransport {
    /// Streamable HTTP (2025-03-26 and later).
    StreamableHttp,
    /// The legacy transport HTTP+SSE (2024-11-05), which the proxy does not speak.
    Sse,
}

/// Whose configuration a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// That of the project in the working directory.
    Project,
    /// That of the user.
    User,
    /// That of the user, for the project in the working directory.
    Local,
}

/// What a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// The working directory.
    Project,
    /// The home directory.
    Home,
    /// Where programs keep configuration: `~/.config`, on macOS `~/Library/Application Support`.
    Config,
    /// `~/.config` everywhere.
    DotConfig,
}

/// The machine's kind, which decides where configuration lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// `~/.config`.
    Linux,
    /// `~/Library/Application Support`.
    MacOs,
}

/// A file of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// What the client is called on the command line.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Whose configuration it is.
    pub scope: Scope,
    /// What the path is relative to.
    pub folder: Folder,
    /// The path.
    pub path: &'static str,
    /// Where servers stand in it.
    pub place: Place,
}

impl Client {
    /// The path from the home directory or the working directory.
    pub fn relative_path(&self, home: Home) -> String {
        match (self.folder, home) {
            (Folder::Project | Folder::Home, _) => self.path.to_owned(),
            (Folder::Config, Home::MacOs) => format!("Library/Application Support/{}", self.path),
            _ => format!(".config/{}", self.path),
        }
    }
}

const SERVERS: Place = Place {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
const VS_CODE: Place = Place {
    notation: Notation::Json,
    servers: &["servers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
const ZED: Place = Place {
    notation: Notation::Json,
    servers: &["context_servers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
const CODEX: Place = Place {
    notation: Notation::Toml,
    servers: &["mcp_servers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};
/// Gemini CLI: `url` is an HTTP+SSE endpoint, `httpUrl` a streamable one.
const GEMINI: Place = Place {
    notation: Notation::Json,
    servers: &["mcpServers"],
    shape: Shape::Separate,
    url_transport: UrlTransport::Sse,
    project: None,
};
const OPENCODE: Place = Place {
    notation: Notation::Json,
    servers: &["mcp"],
    shape: Shape::Together,
    url_transport: UrlTransport::StreamableHttp,
    project: None,
};

const fn row(
    name: &'static str,
    title: &'static str,
    scope: Scope,
    folder: Folder,
    path: &'static str,
    place: Place,
) -> Client {
    Client { name, title, scope, folder, path, place }
}

/// Every file that is looked for.
pub const CLIENTS: &[Client] = &[
    row("claude-code", "Claude Code", Scope::Project, Folder::Project, ".mcp.json", SERVERS),
    row("claude-code", "Claude Code", Scope::User, Folder::Home, ".claude.json", SERVERS),
    row("claude-code", "Claude Code", Scope::Local, Folder::Home, ".claude.json", SERVERS),
    row(
        "claude-desktop",
        "Claude Desktop",
        Scope::User,
        Folder::Config,
        "Claude/claude_desktop_config.json",
        SERVERS,
    ),
    row("cursor", "Cursor", Scope::Project, Folder::Project, ".cursor/mcp.json", SERVERS),
    row("cursor", "Cursor", Scope::User, Folder::Home, ".cursor/mcp.json", SERVERS),
    row("vscode", "VS Code", Scope::Project, Folder::Project, ".vscode/mcp.json", VS_CODE),
    row("vscode", "VS Code", Scope::User, Folder::Config, "Code/User/mcp.json", VS_CODE),
    row(
        "windsurf",
        "Windsurf",
        Scope::User,
        Folder::Home,
        ".codeium/windsurf/mcp_config.json",
        SERVERS,
    ),
    row("zed", "Zed", Scope::Project, Folder::Project, ".zed/settings.json", ZED),
    row("zed", "Zed", Scope::User, Folder::DotConfig, "zed/settings.json", ZED),
    row("codex", "Codex", Scope::User, Folder::Home, ".codex/config.toml", CODEX),
    row("gemini", "Gemini CLI", Scope::Project, Folder::Project, ".gemini/settings.json", GEMINI),
    row("gemini", "Gemini CLI", Scope::User, Folder::Home, ".gemini/settings.json", GEMINI),
    row("opencode", "opencode", Scope::Project, Folder::Project, "opencode.json", OPENCODE),
    row("opencode", "opencode", Scope::User, Folder::DotConfig, "opencode/opencode.json", OPENCODE),
];
