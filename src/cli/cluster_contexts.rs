//! The cluster that a command selects from the config file.
//!
//! `--context NAME` overrides the environment. A different address in the environment is an error,
//! because the command would name two clusters. The default cluster that `context use` sets has the
//! lowest precedence: the environment overrides single settings, and an address from a flag or
//! NOMAD_ADDR disables it as a whole. A token is therefore never sent to another cluster than its own.
//! Only commands that connect to a server read the config file.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::args::GlobalArgs;
use super::env::{Environment, Variable};
use super::error::CliError;
use nomad_csi_client::files::{self, ClusterContext, ClusterContexts};
use nomad_csi_client::nomad::RedactedString;
use nomad_csi_client::ports::SecretSource as _;
use nomad_csi_client::secrets::LocalSecrets;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, closest_match};
use nomad_csi_model::private::NotPrivate;

/// The setting that selected the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectedBy {
    /// `--context`.
    Flag,
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

/// The directory of the config file and of the default cluster's name.
#[derive(Clone, Debug)]
pub(super) struct ConfigHome(PathBuf);

impl ConfigHome {
    /// Returns the user's config directory.
    ///
    /// # Errors
    /// Fails if no environment variable names it.
    pub(super) fn of(environment: &Environment) -> Result<Self, CliError> {
        Self::find(environment).ok_or_else(|| {
            let message = "cannot find the config directory: no environment variable names it";
            Diagnostic::error(Code::ConfigUnreadable, message)
                .help("set XDG_CONFIG_HOME or HOME (on Windows APPDATA)")
                .into()
        })
    }

    fn find(environment: &Environment) -> Option<Self> {
        let named = environment.path(Variable::ConfigHome);
        let windows = || environment.path(Variable::AppData).filter(|_| cfg!(windows));
        let home = || Some(environment.path(Variable::Home)?.join(".config"));
        let home = named.or_else(windows).or_else(home)?;
        Some(Self(home.join("nomad-csi")))
    }

    /// Returns the path of the config file.
    pub(super) fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// Returns the path of the file with the default cluster's name.
    fn selection_file(&self) -> PathBuf {
        self.0.join("context")
    }

    /// Reads all contexts. Without a config file, returns none.
    ///
    /// # Errors
    /// Returns every problem of the file.
    pub(super) fn contexts(&self) -> Result<(ClusterContexts, SourceMap), CliError> {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let read = files::read_config(&self.config(), &mut sources, &mut diagnostics);
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
        files::current_context(&self.selection_file()).map_err(|error| {
            if let Some(refused) = NotPrivate::find(&error) {
                return refused.diagnostic("use the selected context").into();
            }
            let message = format!("cannot read `{}`", self.selection_file().display());
            Diagnostic::error(Code::ConfigUnreadable, message).note(error.to_string()).into()
        })
    }

    /// Stores the name of the default cluster, or none.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn select(&self, name: Option<&str>) -> Result<(), CliError> {
        files::set_current_context(&self.selection_file(), name.unwrap_or_default()).map_err(
            |error| {
                let message = format!("cannot write `{}`", self.selection_file().display());
                Diagnostic::error(Code::CliFile, message).note(error.to_string()).into()
            },
        )
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
        let choice = self.selection_file();
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
                diagnostic.help("define it: `[context.NAME]` with an `address`")
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
) -> Result<Option<SelectedCluster>, CliError> {
    if global.is_embedded() {
        return Ok(None);
    }
    let (home, name, by) = match &global.context {
        Some(name) => (ConfigHome::of(environment)?, name.clone(), SelectedBy::Flag),
        None if global.address.is_some() || environment.is_set(Variable::Address) => {
            return Ok(None);
        }
        None => {
            let Some(home) = ConfigHome::find(environment) else {
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
            SelectedBy::ContextUse => home.explain_selection(unknown).into(),
        });
    };
    let chosen = SelectedCluster {
        name,
        cluster,
        selected_by: by,
        directory: home.0,
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
        let message = format!(
            "`--context {}` conflicts with NOMAD_ADDR: the address of the context is `{}`",
            self.name, self.cluster.address
        );
        Diagnostic::error(Code::CliContextConflict, message)
            .help("unset NOMAD_ADDR, or remove `--context`")
            .into()
    }

    /// Returns the setting that takes precedence: the context's value if `--context` selected it, else
    /// the environment's. Falls back to the other value.
    pub(super) fn prefer<T>(&self, own: Option<T>, environment: Option<T>) -> Option<T> {
        match self.selected_by {
            SelectedBy::Flag => own.or(environment),
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
