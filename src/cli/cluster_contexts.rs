//! The cluster that a command selects from the config file.
//!
//! `--context NAME` overrides the environment, as does the name in NOMAD_CSI_CONTEXT. A different address in the
//! environment is an error, because the command would name two clusters. The default cluster that `context use` sets has the
//! lowest precedence: the environment overrides single settings, and an address from a flag or
//! NOMAD_ADDR disables it as a whole. A token is therefore never sent to another cluster than its own.
//! Only commands that connect to a server read the config file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::args::GlobalArgs;
use super::env::{Environment, Variable};
use super::error::CliError;
use nomad_csi_client::files::{self, ClusterContext, ClusterContexts, NewContext};
use nomad_csi_client::nomad::RedactedString;
use nomad_csi_client::ports::SecretSource as _;
use nomad_csi_client::secrets::LocalSecrets;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, closest_match};
use nomad_csi_model::one_line;
use nomad_csi_model::private::NotPrivate;

/// The setting that selected the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectedBy {
    /// `--context`.
    Flag,
    /// NOMAD_CSI_CONTEXT.
    Variable,
    /// `context use`.
    ContextUse,
}

/// The cluster of the config file that a run uses.
#[derive(Clone, Debug)]
pub(super) struct SelectedCluster {
    /// Name of the context.
    pub name: String,
    /// Settings of the context.
    pub cluster: ClusterContext,
    /// The setting that selected the cluster.
    pub selected_by: SelectedBy,
    /// The directory that relative paths start from.
    directory: PathBuf,
    sources: Arc<SourceMap>,
    /// The warning of the token lookup, set by [`Self::token`].
    token_warning: OnceLock<Diagnostic>,
}

/// The config file, and the file with the default cluster's name.
#[derive(Clone, Debug)]
pub(super) struct ConfigHome {
    config: PathBuf,
    /// `None` if the command line names the config file.
    selection: Option<PathBuf>,
}

impl ConfigHome {
    /// Returns the config file that the command line names, relative to `directory`, or that of the user.
    ///
    /// # Errors
    /// Fails if no environment variable names the user's config directory.
    pub(super) fn of(
        global: &GlobalArgs,
        environment: &Environment,
        directory: &Path,
    ) -> Result<Self, CliError> {
        Self::find(global, environment, directory).ok_or_else(|| {
            let message = "cannot find the config directory: no environment variable names it";
            Diagnostic::error(Code::ConfigUnreadable, message)
                .help("set XDG_CONFIG_HOME or HOME (on Windows APPDATA)")
                .into()
        })
    }

    fn find(global: &GlobalArgs, environment: &Environment, directory: &Path) -> Option<Self> {
        if let Some(named) = &global.config_file {
            return Some(Self { config: directory.join(named), selection: None });
        }
        let named = environment.path(Variable::ConfigHome);
        let windows = || environment.path(Variable::AppData).filter(|_| cfg!(windows));
        let home = || Some(environment.path(Variable::Home)?.join(".config"));
        let home = named.or_else(windows).or_else(home)?;
        let home = home.join("nomad-csi");
        let (config, selection) = (home.join("config.toml"), Some(home.join("context")));
        Some(Self { config, selection })
    }

    /// Returns the path of the config file.
    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the directory that relative paths of the config file start from.
    fn directory(&self) -> PathBuf {
        self.config.parent().map(Path::to_owned).unwrap_or_default()
    }

    /// Reads all contexts. Without a config file, returns none.
    ///
    /// # Errors
    /// Returns every problem of the file.
    pub(super) fn contexts(&self) -> Result<(ClusterContexts, SourceMap), CliError> {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let read = files::read_config(&self.config, &mut sources, &mut diagnostics);
        if read.is_none() && self.selection.is_none() {
            let message = format!("config file `{}` does not exist", self.config.display());
            let help = "name another file with `--config-file`, or add a cluster to this one with `nomad-csi context add`";
            return Err(Diagnostic::error(Code::ConfigUnreadable, message).help(help).into());
        }
        if diagnostics.has_errors() {
            diagnostics.sort();
            return Err(CliError::from(diagnostics).with_sources(sources));
        }
        Ok((read.unwrap_or_default(), sources))
    }

    /// Reads the name that `context use` stored.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(super) fn selected_name(&self) -> Result<Option<String>, CliError> {
        let Some(selection) = &self.selection else {
            return Ok(None);
        };
        files::current_context(selection).map_err(|error| {
            if let Some(refused) = NotPrivate::find(&error) {
                return refused.diagnostic("use the selected context").into();
            }
            let message = format!("cannot read `{}`", selection.display());
            Diagnostic::error(Code::ConfigUnreadable, message).note(error.to_string()).into()
        })
    }

    /// Stores the name of the default cluster, or none.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or the command line names the config file.
    pub(super) fn select(&self, name: Option<&str>) -> Result<(), CliError> {
        let Some(selection) = &self.selection else {
            let message = "cannot set the default cluster: it is one of the user's config file, and `--config-file` names another file";
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("name the cluster with `--context` or NOMAD_CSI_CONTEXT in each command")
                .into());
        };
        files::set_current_context(selection, name.unwrap_or_default()).map_err(|error| {
            let message = format!("cannot write `{}`", selection.display());
            Diagnostic::error(Code::CliFile, message).note(error.to_string()).into()
        })
    }

    /// Adds a context to the end of the config file, and creates the file if there is none.
    ///
    /// # Errors
    /// Fails if the file has a problem or has the context, the settings are not valid in it, or it cannot be written.
    pub(super) fn add(&self, name: &str, context: &NewContext) -> Result<(), CliError> {
        let cannot = |why: &str| {
            let message = format!("cannot add context `{}`: {why}", one_line(name));
            Diagnostic::error(Code::CliInvalidValue, message)
        };
        let before = match files::read_limited(&self.config) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                let unreadable = match NotPrivate::find(&error) {
                    Some(refused) => refused.diagnostic("add a context to the config file"),
                    None => cannot(&format!("cannot read `{}`", self.config.display()))
                        .note(error.to_string()),
                };
                return Err(unreadable.into());
            }
        };
        if before.is_some() && self.contexts()?.0.contains_key(name) {
            let known = cannot(&format!("`{}` has one of this name", self.config.display()));
            return Err(known.help("choose another name, or edit the file").into());
        }
        let text = files::with_context(before.as_deref().unwrap_or_default(), name, context);
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        files::parse_config(&text, &self.config, &mut sources, &mut diagnostics);
        if diagnostics.has_errors() {
            return Err(CliError::from(diagnostics).with_sources(sources));
        }
        let directory = self.directory();
        if let Some(before) = before {
            files::rewrite(&directory, &self.config, before.as_bytes(), text.as_bytes())?;
            return Ok(());
        }
        std::fs::create_dir_all(&directory).map_err(|error| {
            cannot(&format!("cannot create `{}`", directory.display())).note(error.to_string())
        })?;
        Ok(files::write_private(&directory, &self.config, text.as_bytes())?)
    }

    /// Reads one context by its name.
    ///
    /// # Errors
    /// Fails if the context does not exist or the file has a problem.
    pub(super) fn context(&self, name: &str) -> Result<(ClusterContext, SourceMap), CliError> {
        let (mut contexts, sources) = self.contexts()?;
        match contexts.remove(name) {
            Some(context) => Ok((context, sources)),
            None => Err(self.unknown_context(name, &contexts).into()),
        }
    }

    /// Adds where the name of the default cluster comes from and how to change it.
    fn explain_selection(&self, unknown: Diagnostic) -> Diagnostic {
        let choice = self.selection.as_deref().unwrap_or(Path::new("context"));
        unknown
            .note(format!(
                "`nomad-csi context use` set this default cluster in `{}`",
                choice.display()
            ))
            .help("set another with `nomad-csi context use NAME`, unset it with `nomad-csi context use --none`, or override it with `--context` or NOMAD_ADDR")
    }

    fn unknown_context(&self, name: &str, contexts: &ClusterContexts) -> Diagnostic {
        let config = self.config();
        let message = format!("context `{name}` does not exist in `{}`", config.display());
        let diagnostic = Diagnostic::error(Code::ConfigNoContext, message);
        let names: Vec<_> = contexts.keys().map(String::as_str).collect();
        match closest_match(name, names.iter().copied()) {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None if names.is_empty() => {
                diagnostic.help("define one with `nomad-csi context add NAME --address URL`")
            }
            None => diagnostic.help(format!("use one of: {}", names.join(", "))),
        }
    }
}

/// Returns the selected cluster, if any.
///
/// # Errors
/// Fails if the cluster cannot be read, does not exist, or differs from the address in the environment.
pub(super) fn select_cluster(
    global: &GlobalArgs,
    environment: &Environment,
    directory: &Path,
) -> Result<Option<SelectedCluster>, CliError> {
    if global.is_embedded() {
        return Ok(None);
    }
    let home = || ConfigHome::of(global, environment, directory);
    let variable = environment.text(Variable::Context)?;
    let (home, name, by) = match (&global.context, variable) {
        (Some(name), _) => (home()?, name.clone(), SelectedBy::Flag),
        (None, _) if global.address.is_some() => return Ok(None),
        (None, Some(name)) => (home()?, name.to_owned(), SelectedBy::Variable),
        (None, None) if environment.is_set(Variable::Address) => return Ok(None),
        (None, None) if global.config_file.is_some() => {
            let message =
                "no cluster is selected: a file that `--config-file` names has no default cluster";
            return Err(Diagnostic::error(Code::ConfigNoContext, message)
                .help("name the cluster with `--context` or NOMAD_CSI_CONTEXT")
                .into());
        }
        (None, None) => {
            let Some(home) = ConfigHome::find(global, environment, directory) else {
                return Ok(None);
            };
            let Some(name) = home.selected_name()? else {
                return Ok(None);
            };
            (home, name, SelectedBy::ContextUse)
        }
    };
    let (mut contexts, sources) = home.contexts()?;
    let Some(cluster) = contexts.remove(&name) else {
        let unknown = home.unknown_context(&name, &contexts);
        return Err(match by {
            SelectedBy::Flag => unknown.into(),
            SelectedBy::Variable => {
                let help = "change or unset NOMAD_CSI_CONTEXT, or override it with `--context`";
                unknown.note("NOMAD_CSI_CONTEXT names it").help(help).into()
            }
            SelectedBy::ContextUse => home.explain_selection(unknown).into(),
        });
    };
    let chosen = SelectedCluster {
        name,
        cluster,
        selected_by: by,
        directory: home.directory(),
        sources: Arc::new(sources),
        token_warning: OnceLock::new(),
    };
    match environment.text(Variable::Address)? {
        Some(other) if !same_address(other, &chosen.cluster.address) => {
            Err(chosen.address_conflict())
        }
        Some(_) | None => Ok(Some(chosen)),
    }
}

fn same_address(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

impl SelectedCluster {
    /// The message omits the address of the environment, which may contain a password.
    fn address_conflict(&self) -> CliError {
        let (name, address) = (&self.name, &self.cluster.address);
        let (choice, help) = match self.selected_by {
            SelectedBy::Variable => {
                (format!("NOMAD_CSI_CONTEXT={name}"), "unset NOMAD_ADDR or NOMAD_CSI_CONTEXT")
            }
            SelectedBy::Flag | SelectedBy::ContextUse => {
                (format!("--context {name}"), "unset NOMAD_ADDR, or remove `--context`")
            }
        };
        let message = format!(
            "`{choice}` conflicts with NOMAD_ADDR: the address of the context is `{address}`"
        );
        Diagnostic::error(Code::CliContextConflict, message).help(help).into()
    }

    /// Returns the setting that takes precedence: the context's value if `--context` or NOMAD_CSI_CONTEXT selected it, else
    /// the environment's. Falls back to the other value.
    pub(super) fn prefer<T>(&self, own: Option<T>, environment: Option<T>) -> Option<T> {
        match self.selected_by {
            SelectedBy::Flag | SelectedBy::Variable => own.or(environment),
            SelectedBy::ContextUse => environment.or(own),
        }
    }

    /// Returns the warning of the token lookup and its source texts, after [`Self::token`].
    pub(super) fn token_warning(&self) -> Option<(&Diagnostic, &SourceMap)> {
        Some((self.token_warning.get()?, &self.sources))
    }

    /// Looks up the token of the context, if it names one. Stores a warning for
    /// [`Self::token_warning`].
    ///
    /// # Errors
    /// Fails if the token cannot be found.
    pub(super) fn token(
        &self,
        environment: &Environment,
    ) -> Result<Option<RedactedString>, CliError> {
        let Some((reference, place)) = &self.cluster.token else {
            return Ok(None);
        };
        let variables = environment.clone();
        let lookup = move |name: &str| variables.get(name).map(ToOwned::to_owned);
        let found = LocalSecrets::new(Arc::new(lookup)).resolve(reference, &self.directory);
        found
            .map(|found| {
                if let Some(remark) = found.warning {
                    let message = format!("the token of context `{}`: {remark}", self.name);
                    let warning = Diagnostic::warning(remark.code, message)
                        .label(*place, "referenced here")
                        .help(remark.code.advice());
                    // A repeated lookup produces the same warning.
                    drop(self.token_warning.set(warning));
                }
                Some(RedactedString::new(found.value.trim()))
            })
            .map_err(|remark| {
                let message = format!("cannot read the token of context `{}`: {remark}", self.name);
                let diagnostic = Diagnostic::error(remark.code, message)
                    .label(*place, "referenced here")
                    .help(remark.code.advice());
                CliError::from(diagnostic).with_sources(Arc::clone(&self.sources))
            })
    }
}
