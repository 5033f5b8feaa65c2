//! `atlatl install --hooks`: writes the hooks of agents.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use atlatl_lro::clients::{
    CLIENTS, ConfigScope, EntryKind, HOOK_CLIENTS, HomeLayout, HookClient, HookFormat,
    InstallOptions, Journal, Notation, RepairOutcome, entries, install, install_hooks,
    own_arguments, repair, uninstall_hooks,
};
use serde_json::{Value, json};

use super::launcher::{OwnCommand, own_command};
use super::plan::{
    Change, ClientFile, MAX_CONFIG_LEN, TOOLS_SERVER, find_client_files, tools_arguments,
};
use super::{Args, apply, diff, text_diff};
use crate::error::{Error, Status};
use crate::install_journal::{HookInstall, HookInstalls, Installs, failed};
use crate::output::{Mode, Output, pluralize, printable};
use crate::settings::{Settings, Sources, Surroundings};

/// The name that stands for every agent on this machine.
pub(super) const ALL: &str = "all";

/// The planned changes for one agent.
struct HookPlan {
    client: &'static HookClient,
    /// The server with the extraction tools, if it is missing.
    tools: Option<Change>,
    /// The hooks, if they are missing.
    hooks: Option<HookInstall>,
    /// The contents of the file with hooks before.
    before: String,
}

/// Installs the hooks of the agents that `args` names, or of those on this machine.
pub(super) fn run(
    args: &Args,
    settings: &Settings,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let surroundings = settings.surroundings();
    let home = surroundings.home.as_deref();
    let home = home.ok_or_else(|| Error::usage("no home directory to look for agents in"))?;
    let clients = selected(args, home)?;
    let own = own_command(settings, sources)?;
    let (installs, hook_installs) = (Installs::open(settings)?, HookInstalls::open(surroundings)?);
    let mut plans = Vec::new();
    for client in clients {
        let earlier = hook_installs.find(client.name)?;
        let planner = Planner { client, home, own: &own, settings, installs: &installs, earlier };
        plans.push(planner.plan()?);
    }
    if output.mode() == Mode::Human {
        for plan in &plans {
            output.text(&plan.text())?;
        }
    }
    if own.temporary && plans.iter().any(|plan| plan.hooks.is_some()) {
        output.note(format!(
            "{} is in a build or temporary directory: hooks that start it fail when it is removed",
            own.user.join(" ")
        ));
    }
    let files = plans.iter().map(HookPlan::files).sum::<usize>();
    if files > 0 && !args.dry_run {
        confirm(args, files, output)?;
        for plan in &plans {
            plan.apply(&installs, &hook_installs)?;
        }
    }
    match output.mode() {
        Mode::Json => {
            let hooks = plans.iter().map(HookPlan::report).collect::<Vec<_>>();
            output.json(&json!({"dry_run": args.dry_run, "hooks": hooks}))?;
        }
        Mode::Human if files == 0 => output.note("nothing to change"),
        Mode::Human => {}
    }
    if files > 0 && !args.dry_run {
        output.note("Restart the agent. Undo with `atlatl uninstall`.");
        if plans.iter().any(|plan| plan.client.name == "codex" && plan.hooks.is_some()) {
            output.note("Codex asks you to trust the hook: run /hooks in it.");
        }
    }
    Ok(Status::Success)
}

/// The agents that `args` names, or those whose directory exists.
fn selected(args: &Args, home: &Path) -> Result<Vec<&'static HookClient>, Error> {
    let mut names: Vec<&String> = args.clients.iter().collect();
    names.extend(args.hooks.iter().filter(|name| *name != ALL));
    let known = || HOOK_CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().join(", ");
    for name in &names {
        if !HOOK_CLIENTS.iter().any(|client| client.name == **name) {
            return Err(Error::usage(format!("no hooks for {name}")).with_hint(known()));
        }
    }
    let is_selected = |client: &&HookClient| {
        if names.is_empty() {
            home.join(client.relative_home(layout())).is_dir()
        } else {
            names.iter().any(|name| **name == client.name)
        }
    };
    let clients: Vec<_> = HOOK_CLIENTS.iter().filter(is_selected).collect();
    if clients.is_empty() {
        return Err(Error::failure("no agent with hooks found in your home directory")
            .with_hint(format!("name one: atlatl install --hooks NAME ({})", known())));
    }
    Ok(clients)
}

fn layout() -> HomeLayout {
    if cfg!(target_os = "macos") { HomeLayout::MacOs } else { HomeLayout::Linux }
}

fn confirm(args: &Args, files: usize, output: &mut Output) -> Result<(), Error> {
    if args.yes {
        return Ok(());
    }
    let files = pluralize(files as u64, "file", "files");
    match output.confirmed(format!("Change {files}?"))? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::failure("nothing was changed")),
        None => Err(Error::usage("cannot ask for confirmation: not a terminal").with_hint(
            "use --yes to skip the confirmation, or --dry-run to only show the changes",
        )),
    }
}

/// Plans the changes for one agent.
struct Planner<'a> {
    client: &'static HookClient,
    home: &'a Path,
    own: &'a OwnCommand,
    settings: &'a Settings,
    installs: &'a Installs,
    /// The hooks of an earlier run.
    earlier: Option<HookInstall>,
}

impl Planner<'_> {
    fn plan(&self) -> Result<HookPlan, Error> {
        let target = self.server_file()?;
        let (tools, has_tools, text) = match &target {
            Some(target) => self.plan_tools(target)?,
            None => (None, false, None),
        };
        let path = self.home.join(self.client.relative_path(layout()));
        let file = fs::canonicalize(&path).unwrap_or(path);
        // A file with servers and hooks is changed twice.
        let is_shared = target.is_some_and(|target| target.file == file);
        let before = match text.filter(|_| is_shared) {
            Some(text) => Some(text),
            None => read_settings(&file)?,
        };
        let hooks = self.plan_hooks(file, before.as_deref(), has_tools)?;
        let before = before.unwrap_or_default();
        Ok(HookPlan { client: self.client, tools, hooks, before })
    }

    /// The user's file with the servers of the agent, if it exists.
    fn server_file(&self) -> Result<Option<ClientFile>, Error> {
        if self.client.name == "copilot" {
            return Ok(None);
        }
        let mut files = find_client_files(self.settings, &[self.client.name.to_owned()])?;
        let surroundings = self.settings.surroundings();
        files.retain(|file| {
            file.client.scope != ConfigScope::Local && !file.is_of_project(surroundings)
        });
        Ok(files.pop())
    }

    /// The change that adds the server with the extraction tools, whether the file has it then, and the
    /// text of the file.
    fn plan_tools(
        &self,
        target: &ClientFile,
    ) -> Result<(Option<Change>, bool, Option<String>), Error> {
        let invalid = |error| Error::failure(format!("{}: {error}", target.display_name()));
        let text = target.read().map_err(|why| {
            Error::failure(format!("{}: cannot read it: {why}", target.display_name()))
        })?;
        let earlier = self.installs.find(&target.file, &target.place)?;
        let mut earlier = earlier.map(|one| one.journal).unwrap_or_default();
        let options = self.options();
        // Only the entry of the tools is repaired: the flags of the proxies are not known here.
        let (added, others): (Vec<_>, Vec<_>) =
            earlier.added.into_iter().partition(|one| one.name == TOOLS_SERVER);
        let tools = Journal { added, ..Journal::default() };
        let RepairOutcome { text: repaired, journal, rewritten, restored, .. } =
            repair(&text, &target.place, &options, &tools).map_err(invalid)?;
        earlier.added = others;
        earlier.added.extend(journal.added);
        let installed = install(&repaired, &target.place, &options).map_err(invalid)?;
        let servers = entries(&installed.text, &target.place).map_err(invalid)?;
        let has_tools = servers.iter().any(|entry| {
            let EntryKind::Ours(words) = &entry.kind else { return false };
            let args = own_arguments(words).unwrap_or_default();
            let is_complete =
                self.client.name != "gemini" || args.iter().any(|arg| arg == "--hook");
            entry.name == TOOLS_SERVER
                && args.first().is_some_and(|arg| arg == "tools")
                && is_complete
        });
        let after = installed.text.clone();
        let change = (installed.text != text).then(|| Change {
            target: target.clone(),
            before: text,
            after: installed.text,
            journal: installed.journal,
            earlier,
            rewritten,
            restored,
        });
        Ok((change, has_tools, Some(after)))
    }

    /// Adds the server with the extraction tools, and puts no server behind the proxy.
    fn options(&self) -> InstallOptions {
        let mut options = InstallOptions::with_command(self.own.user.clone());
        options.servers = Some(Vec::new());
        options.add =
            vec![(TOOLS_SERVER.to_owned(), tools_arguments("dir:.", self.client.name, true))];
        options
    }

    fn plan_hooks(
        &self,
        file: PathBuf,
        before: Option<&str>,
        has_tools: bool,
    ) -> Result<Option<HookInstall>, Error> {
        let command = shell_line(&self.own.user);
        let mut new = HookInstall {
            created_dirs: missing_dirs(&file),
            client: self.client.name.to_owned(),
            original: before.map(str::to_owned),
            written: String::new(),
            servers: Vec::new(),
            inserted: Vec::new(),
            file,
        };
        match (self.client.format, &self.earlier) {
            (HookFormat::Settings(notation), earlier) => {
                let (mut base, servers) = match before {
                    Some(text) => (Cow::Borrowed(text), Vec::new()),
                    None => self.new_settings(notation),
                };
                new.servers = servers;
                if let Some(earlier) = earlier {
                    // Hooks of an earlier run are written again: the program may have moved.
                    let without = uninstall_hooks(&base, notation, &earlier.inserted);
                    base = without.map_or(base, Cow::Owned);
                    let is_created = earlier.original.is_none() && before.is_some();
                    let has_original = before.is_some() && !is_created;
                    new.original = has_original.then(|| base.to_string());
                    if is_created {
                        new.servers.clone_from(&earlier.servers);
                        new.created_dirs.clone_from(&earlier.created_dirs);
                    }
                }
                // Gemini CLI calls a tool of the server, which is in the same file.
                let has_tools = has_tools || !new.servers.is_empty();
                if self.client.name == "gemini" && !has_tools {
                    let file = new.file.display();
                    return Err(Error::failure(format!(
                        "{file}: the server {TOOLS_SERVER} does not start `atlatl tools --hook gemini`"
                    ))
                    .with_hint(format!("remove {TOOLS_SERVER} from \"mcpServers\", and try again")));
                }
                let hooks = self.client.hooks(&command, has_tools);
                let outcome = install_hooks(&base, notation, &hooks)
                    .map_err(|error| Error::failure(format!("{}: {error}", new.file.display())))?;
                (new.written, new.inserted) = (outcome.text, outcome.inserted);
            }
            (_, earlier) => {
                let hooks = self.client.hooks(&command, has_tools);
                new.written = hooks.into_iter().map(|hook| hook.text).collect();
                if let Some(earlier) = earlier.as_ref().filter(|_| before.is_some()) {
                    new.original.clone_from(&earlier.original);
                    new.created_dirs.clone_from(&earlier.created_dirs);
                }
            }
        }
        Ok((before != Some(new.written.as_str())).then_some(new))
    }

    /// The contents of a new settings file before the hooks, and the texts in it.
    fn new_settings(&self, notation: Notation) -> (Cow<'static, str>, Vec<String>) {
        if notation == Notation::Toml {
            return (Cow::Borrowed(""), Vec::new());
        }
        let empty = "{\n}\n";
        let place = CLIENTS
            .iter()
            .find(|client| client.name == self.client.name && client.path == self.client.path);
        let installed = place.and_then(|one| install(empty, &one.place, &self.options()).ok());
        match installed {
            Some(installed) => {
                let added = installed.journal.added.into_iter().map(|added| added.inserted);
                (Cow::Owned(installed.text), added.collect())
            }
            None => (Cow::Borrowed(empty), Vec::new()),
        }
    }
}

impl HookPlan {
    fn files(&self) -> usize {
        usize::from(self.tools.is_some()) + usize::from(self.hooks.is_some())
    }

    fn apply(&self, installs: &Installs, hook_installs: &HookInstalls) -> Result<(), Error> {
        if let Some(change) = &self.tools {
            apply(change, installs)?;
        }
        if let Some(hooks) = &self.hooks {
            hook_installs.store(hooks)?;
            hooks.write().map_err(|error| failed(&hooks.file, &error))?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut out = self.tools.as_ref().map(diff).unwrap_or_default();
        if let Some(hooks) = &self.hooks {
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "{} ({})",
                printable(&hooks.file.display().to_string()),
                self.client.title
            );
            out.push_str(&text_diff(&self.before, &hooks.written));
        }
        out
    }

    fn report(&self) -> Value {
        json!({
            "client": self.client.name,
            "file": self.hooks.as_ref().map(|hooks| &hooks.file),
            "created": self.hooks.as_ref().is_some_and(|hooks| hooks.original.is_none()),
            "tools": self.tools.as_ref().map(|change| &change.target.file),
        })
    }
}

/// The contents of a settings file; `None` if it does not exist.
fn read_settings(file: &Path) -> Result<Option<String>, Error> {
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(file, &error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() > MAX_CONFIG_LEN => {
            return Err(Error::failure(format!("{}: not a settings file", file.display())));
        }
        Ok(_) => {}
    }
    fs::read_to_string(file).map(Some).map_err(|error| failed(file, &error))
}

/// The directories above `file` that do not exist, the outermost first.
fn missing_dirs(file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1).take_while(|dir| !dir.exists());
    let mut dirs: Vec<PathBuf> = above.map(Path::to_owned).collect();
    dirs.reverse();
    dirs
}

/// Words as a line for a shell.
fn shell_line(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Whether the hooks of an agent are installed.
pub(super) fn is_installed(surroundings: &Surroundings, client: &str) -> bool {
    HookInstalls::open(surroundings)
        .and_then(|installs| installs.find(client))
        .is_ok_and(|install| install.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_the_shell() {
        let words =
            |words: &[&str]| shell_line(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&["/usr/bin/atlatl"]), "/usr/bin/atlatl");
        assert_eq!(words(&["npx", "-y", "atlatl-lro"]), "npx -y atlatl-lro");
        assert_eq!(words(&["/a b/it's/$x"]), r"'/a b/it'\''s/$x'");
        assert_eq!(words(&[""]), "''");
    }
}
