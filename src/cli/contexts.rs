//! The cluster that is meant by its name.
//!
//! `--context NAME` is a flag: it beats the environment, and an address in the environment that
//! differs is an error, because then two clusters are meant. The context that `context use` chose is
//! weaker than everything: single settings of the environment beat it, and an address from elsewhere
//! (a flag, NOMAD_ADDR) leaves it aside as a whole, so that no token ever goes to another cluster than
//! the one that it stands beside. The config file is read by commands that talk to a server, and by
//! no other; its references are followed when a server is opened.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::args::Global;
use super::env::{Environment, Variable};
use super::error::CliError;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, nearest};
use crate::files::{self, ClusterContext, ClusterContexts};
use crate::nomad::Hidden;
use crate::ports::SecretSource as _;
use crate::secrets::LocalSecrets;

/// Who named the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// `--context`.
    Flag,
    /// `context use`.
    Choice,
}

/// The context that holds for this run.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// What it is called.
    pub name: String,
    /// What it says.
    pub cluster: ClusterContext,
    /// Who named it.
    pub by: NamedBy,
    /// Where its relative paths start from.
    directory: PathBuf,
    sources: Arc<SourceMap>,
    /// What is to be warned of, once its token was looked up.
    remark: OnceLock<Diagnostic>,
}

/// Where the config file is and what `context use` wrote, if the user has a config home.
#[derive(Clone, Debug)]
pub(super) struct ConfigHome(PathBuf);

impl ConfigHome {
    /// The user's.
    ///
    /// # Errors
    /// If nothing says where it is.
    pub(super) fn of(environment: &Environment) -> Result<Self, CliError> {
        Self::known(environment).ok_or_else(|| {
            let message = "nothing says where the config file is";
            Diagnostic::error(Code::ConfigUnreadable, message)
                .help("set XDG_CONFIG_HOME or HOME (on Windows APPDATA)")
                .into()
        })
    }

    fn known(environment: &Environment) -> Option<Self> {
        let named = environment.path(Variable::ConfigHome);
        let windows = || {
            environment
                .path(Variable::AppData)
                .filter(|_| cfg!(windows))
        };
        let home = || Some(environment.path(Variable::Home)?.join(".config"));
        let home = named.or_else(windows).or_else(home)?;
        Some(Self(home.join("nomad-csi")))
    }

    /// The config file.
    pub(super) fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// The file with the chosen name.
    fn choice(&self) -> PathBuf {
        self.0.join("context")
    }

    /// All contexts; none if there is no config file.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub(super) fn contexts(&self) -> Result<(ClusterContexts, SourceMap), CliError> {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let read = files::read_config(&self.config(), &mut sources, &mut diagnostics);
        if diagnostics.has_errors() {
            diagnostics.sort();
            return Err(CliError::from(diagnostics).in_texts(sources));
        }
        Ok((read.unwrap_or_default(), sources))
    }

    /// The name that `context use` chose.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn chosen(&self) -> Result<Option<String>, CliError> {
        files::chosen_context(&self.choice()).map_err(|error| {
            let message = format!("{} cannot be read", self.choice().display());
            Diagnostic::error(Code::ConfigUnreadable, message)
                .note(error.to_string())
                .into()
        })
    }

    /// Chooses a name from now on, or none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn choose(&self, name: Option<&str>) -> Result<(), CliError> {
        files::choose_context(&self.choice(), name.unwrap_or_default()).map_err(|error| {
            let message = format!("{} cannot be written", self.choice().display());
            Diagnostic::error(Code::CliFile, message)
                .note(error.to_string())
                .into()
        })
    }

    /// One context by its name.
    ///
    /// # Errors
    /// If there is none, or something is wrong with the file.
    pub(super) fn context(&self, name: &str) -> Result<(ClusterContext, SourceMap), CliError> {
        let (mut contexts, sources) = self.contexts()?;
        match contexts.remove(name) {
            Some(context) => Ok((context, sources)),
            None => Err(self.no_context(name, &contexts).into()),
        }
    }

    /// Nobody typed the name now: who said it, where, and how to say something else.
    fn chosen_wrongly(&self, unknown: Diagnostic) -> Diagnostic {
        let choice = self.choice();
        unknown
            .note(format!(
                "`nomad-csi context use` chose it, which stands in {}",
                choice.display()
            ))
            .help("choose another with `nomad-csi context use NAME`, or none with `nomad-csi context use --none`; `--context` and NOMAD_ADDR beat it")
    }

    fn no_context(&self, name: &str, contexts: &ClusterContexts) -> Diagnostic {
        let config = self.config();
        let message = format!("there is no context `{name}` in {}", config.display());
        let diagnostic = Diagnostic::error(Code::ConfigNoContext, message);
        let names: Vec<_> = contexts.keys().map(String::as_str).collect();
        match nearest(name, names.iter().copied()) {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None if names.is_empty() => {
                diagnostic.help("write one: `[context.NAME]` with an `address`")
            }
            None => diagnostic.help(format!("there are: {}", names.join(", "))),
        }
    }
}

/// The context that holds, if one does.
///
/// # Errors
/// If it cannot be read, is not there, or the environment names another cluster.
pub(super) fn chosen(
    global: &Global,
    environment: &Environment,
) -> Result<Option<Chosen>, CliError> {
    if global.is_embedded() {
        return Ok(None);
    }
    let (home, name, by) = match &global.context {
        Some(name) => (ConfigHome::of(environment)?, name.clone(), NamedBy::Flag),
        None if global.address.is_some() || environment.is_set(Variable::Address) => {
            return Ok(None);
        }
        None => {
            let Some(home) = ConfigHome::known(environment) else {
                return Ok(None);
            };
            let Some(name) = home.chosen()? else {
                return Ok(None);
            };
            (home, name, NamedBy::Choice)
        }
    };
    let (mut contexts, sources) = home.contexts()?;
    let Some(cluster) = contexts.remove(&name) else {
        let unknown = home.no_context(&name, &contexts);
        return Err(match by {
            NamedBy::Flag => unknown.into(),
            NamedBy::Choice => home.chosen_wrongly(unknown).into(),
        });
    };
    let chosen = Chosen {
        name,
        cluster,
        by,
        directory: home.0,
        sources: Arc::new(sources),
        remark: OnceLock::new(),
    };
    match environment.text(Variable::Address)? {
        Some(other) if !same_address(other, &chosen.cluster.address) => Err(chosen.conflict()),
        Some(_) | None => Ok(Some(chosen)),
    }
}

fn same_address(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

impl Chosen {
    /// The address in the environment is not shown: it may hold a password.
    fn conflict(&self) -> CliError {
        let message = format!(
            "`--context {}` means {}, and NOMAD_ADDR names another server",
            self.name, self.cluster.address
        );
        Diagnostic::error(Code::CliContextConflict, message)
            .help("unset NOMAD_ADDR, or leave out `--context`")
            .into()
    }

    /// Of a setting that the context and the environment may say, the one that holds: the context's
    /// if `--context` named it, else the environment's; the other where that one says nothing.
    pub(super) fn or<T>(&self, own: Option<T>, environment: Option<T>) -> Option<T> {
        match self.by {
            NamedBy::Flag => own.or(environment),
            NamedBy::Choice => environment.or(own),
        }
    }

    /// What is to be warned of, with the texts that it points into; known once the token was looked up.
    pub(super) fn remark(&self) -> Option<(&Diagnostic, &SourceMap)> {
        Some((self.remark.get()?, &self.sources))
    }

    /// The token, where the context says where it is. A warning is kept for [`Chosen::remark`].
    ///
    /// # Errors
    /// If it is not there.
    pub(super) fn token(&self, environment: &Environment) -> Result<Option<Hidden>, CliError> {
        let Some((reference, place)) = &self.cluster.token else {
            return Ok(None);
        };
        let variables = environment.clone();
        let lookup = move |name: &str| variables.any(name).map(ToOwned::to_owned);
        let found = LocalSecrets::new(Arc::new(lookup)).find(reference, &self.directory);
        found
            .map(|found| {
                if let Some(remark) = found.warning {
                    let message = format!("the token of context `{}`: {remark}", self.name);
                    let warning = Diagnostic::warning(remark.code, message)
                        .label(*place, "referred to here")
                        .help(remark.code.remedy());
                    // Looked up again, it says the same.
                    drop(self.remark.set(warning));
                }
                Some(Hidden::new(found.value.trim()))
            })
            .map_err(|remark| {
                let message = format!(
                    "the token of context `{}` cannot be had: {remark}",
                    self.name
                );
                let diagnostic = Diagnostic::error(remark.code, message)
                    .label(*place, "referred to here")
                    .help(remark.code.remedy());
                CliError::from(diagnostic).in_texts(Arc::clone(&self.sources))
            })
    }
}
